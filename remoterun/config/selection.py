"""What a word after -H may be: globs, ranges, lists by comma. Pure."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from remoterun.errors import UsageError

# [1-8], [01-16], [1-3,7]: at least one dash or comma, else it is a glob's set of signs.
_RANGE = re.compile(r"\[([0-9]{1,9}(?:[-,][0-9]{1,9})+)\]")
_MOST = 4096


def split(pattern: str) -> list[str]:
    """The words of a list by comma; commas in brackets are the range's own."""
    words, depth, word = [], 0, ""
    for sign in pattern:
        depth = max(0, depth + (sign == "[") - (sign == "]"))
        if sign == "," and not depth:
            words.append(word)
            word = ""
        else:
            word += sign
    return [stripped for each in (*words, word) if (stripped := each.strip())]


def has_range(word: str) -> bool:
    """Whether a range stands in the word."""
    return _RANGE.search(word) is not None


def is_glob(word: str) -> bool:
    """Whether the word (less its ranges) is a pattern over the known names."""
    return bool(set("*?[").intersection(word))


def matches(name: str, glob: str) -> bool:
    """Whether a glob fits the whole name; case counts."""
    return fnmatchcase(name, glob)


def expand_range(word: str) -> list[str]:
    """``a-[1-3]`` → a-1, a-2, a-3; ``[01-12]`` keeps its zeros; ``[1-3,7]`` lists; several multiply.

    Raises UsageError for one that runs backwards, or names more than 4096 hosts.
    """
    names = [""]
    place = 0
    for found in _RANGE.finditer(word):
        numbers = _numbers(found[1], word)
        before = word[place : found.start()]
        place = found.end()
        if len(names) * len(numbers) > _MOST:
            raise UsageError(f"{word!r} names more than {_MOST} hosts")
        names = [name + before + number for name in names for number in numbers]
    return [name + word[place:] for name in names]


def _numbers(text: str, word: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        last = high if dash else low
        if not last.isdigit() or int(low) > int(last):
            raise UsageError(f"[{text}] in {word!r} is no range", hint="[1-8], [01-16] or [1-3,7]")
        if int(last) - int(low) >= _MOST:
            raise UsageError(f"{word!r} names more than {_MOST} hosts")
        width = len(low) if low.startswith("0") else 0
        numbers += [f"{number:0{width}d}" for number in range(int(low), int(last) + 1)]
    return list(dict.fromkeys(numbers))
