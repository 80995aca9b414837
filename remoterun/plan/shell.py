"""Shell text: the only module that makes any.

Everything that a host's shell will read is quoted here, so that spaces, quotes, ``$``, newlines, leading
dashes and bytes that are no UTF-8 arrive unharmed. PURE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from remoterun.errors import UsageError

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+:,./-")


def quote(word: str) -> str:
    """One word for a POSIX sh. Raises UsageError for a NUL, which no argument can hold."""
    if "\0" in word:
        raise UsageError(f"a NUL byte cannot be part of an argument: {word!r}")
    if word and all(sign in _PLAIN for sign in word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def join(words: Iterable[str]) -> str:
    """Words as one POSIX sh command line."""
    return " ".join(quote(word) for word in words)


def for_login_shell(script: str) -> str:
    """A POSIX sh script as one command line that sh, bash, zsh, fish and csh read alike.

    Inside their single quotes these shells differ only in quotes, backslashes before quotes, exclamation
    marks and newlines: whatever is not plain is written in octal, for printf's %b.
    """
    if "\0" in script:
        raise UsageError("a NUL byte cannot be part of a command")
    coded = "".join(
        chr(byte) if chr(byte) in _PLAIN or byte == 32 else f"\\0{byte:03o}"
        for byte in script.encode("utf-8", "surrogateescape")
    )
    return f'sh -c \'eval "$(printf %b "{coded}")"\''


def exports(values: Mapping[str, str]) -> str:
    """``export K=V`` lines, one for each variable, in the given order."""
    return "".join(f"export {check_variable(name)}={quote(value)}\n" for name, value in values.items())


def data_check(name: str, path: str, mode: str) -> str:
    """Lines that end a script with status 126 where data is not there: a folder that should be mounted and is not
    is an empty one, and a job must not train on that. Only a folder for writing may be empty."""
    said = join([f"remoterun: data {name}: {path}"])
    found = '[ -n "$(find "$1/." ! -name . 2>/dev/null | head -n 1)" ]'
    test = '[ -w "$1" ]' if mode == "rw" else f'{{ [ ! -d "$1" ] || {found}; }}'
    wrong = "cannot be written" if mode == "rw" else "is empty: is it mounted?"
    return (
        f"set -- {quote(path)}\n"
        f"[ -e \"$1\" ] || {{ printf '%s is not there\\n' {said} >&2; exit 126; }}\n"
        f"[ -r \"$1\" ] || {{ printf '%s cannot be read\\n' {said} >&2; exit 126; }}\n"
        f"{test} || {{ printf '%s {wrong}\\n' {said} >&2; exit 126; }}\n"
    )


def check_variable(name: str) -> str:
    """``name`` if a shell can export it; else UsageError."""
    letters = name.replace("_", "a")
    if not (letters.isascii() and letters.isalnum() and not name[:1].isdigit()):
        raise UsageError(f"{name!r} is not a name of an environment variable", hint="letters, digits and _ only")
    return name


def bootstrap(nonce: str) -> str:
    """The one command line that a host's login shell ever gets from us.

    It starts a POSIX sh that collects lines from stdin and evaluates them each time a line that is just
    ``nonce`` comes by. ``read`` takes single bytes from a pipe, so whatever follows that line (a payload)
    is still there for the evaluated text to read.
    """
    loop = (
        'n=$(printf "\\n.");n=${n%.};s=;while IFS= read -r l;do '
        f'case $l in {nonce})eval "$s";s=;;*)s=$s$l$n;;esac;done'
    )
    # A backslash inside single quotes is plain in all of these shells unless a quote follows it.
    return f"sh -c '{loop}'"


def request(function: str, arguments: Iterable[str], nonce: str, number: int) -> str:
    """The text of one request: marks around the output of ``function``, called in a subshell.

    A mark begins with a control character that no text ends with, so that whoever reads a stream never has to
    hold back the end of a line as the possible beginning of a mark.
    stdin of the function is empty; a payload, where there is one, is on descriptor 3. A request with
    status 75 leaves the payload unread, so the conversation must end there.
    """
    call = join([function, *arguments])
    mark = f"{nonce} {number}"
    return (
        f"printf '\\036%s begin\\n' '{mark}';printf '\\036%s begin\\n' '{mark}' >&2\n"
        f"({call}) 3<&0 </dev/null\n"
        f"_rr=$?;printf '\\036%s end %s\\n' '{mark}' \"$_rr\";printf '\\036%s end\\n' '{mark}' >&2\n"
        f'[ "$_rr" != 75 ] || exit 75\n'
        f"{nonce}\n"
    )


def definitions(text: str, nonce: str) -> str:
    """Functions to be evaluated in the conversation's own shell, so that later requests can call them."""
    return f"{text}\n{nonce}\n"
