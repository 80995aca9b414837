"""A log on a terminal and in a pipe (field report B51)."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoterun.views.logtext import LogText
from remoterun.views.tables import cell_width, columns, cut


def shown(pieces: list[bytes], *, terminal: bool = False, raw: bool = False) -> bytes:
    out = io.BytesIO()
    text = LogText(out, terminal, raw)
    for piece in pieces:
        text.write(piece)
    text.finish()
    return out.getvalue()


def test_a_bar_is_one_line_in_a_pipe_and_moves_on_a_terminal() -> None:
    bars = [f"\r {n:3d}%|###| ".encode() for n in range(100)]
    log = [*bars[:50], b"\nplain line\n", *bars[50:]]
    assert shown(log) == b"  49%|###| \nplain line\n  99%|###| \n"
    assert shown(log, terminal=True).count(b"\r") == 100
    assert shown(log, raw=True) == b"".join(log)


def test_a_line_is_shown_when_its_end_comes_and_a_bar_at_once_on_a_terminal() -> None:
    out = io.BytesIO()
    text = LogText(out, terminal=True)
    text.write(b"\r 10%")
    assert out.getvalue() == b"\r 10%"
    piped = LogText(out := io.BytesIO(), terminal=False)
    piped.write(b"line\n")
    assert out.getvalue() == b"line\n"


@pytest.mark.parametrize(
    "code",
    [
        b"\x1b]0;title\x07",
        b"\x1b[2J",
        b"\x1b[H",
        b"\x1b[6n",
        b"\x1bc",
        b"\x1b]52;c;Zm9v\x1b\\",
        b"\x1b[?1049h",
        b"\x1bP1$r\x1b\\",
        b"\0",
        b"\x07",
    ],
)
@pytest.mark.parametrize("terminal", [True, False])
def test_codes_that_retitle_clear_or_ask_are_taken_out(code: bytes, terminal: bool) -> None:
    for at in range(len(code) + 1):
        pieces = [b"a" + code[:at], code[at:] + b"b\n"]
        assert shown(pieces, terminal=terminal) == b"ab\n", at
    assert shown([b"a" + code + b"b\n"], raw=True) == b"a" + code + b"b\n"


def test_colours_stay_on_a_terminal_and_go_in_a_pipe() -> None:
    line = b"\x1b[31mred\x1b[0m\n"
    assert shown([line], terminal=True) == line
    assert shown([line]) == b"red\n"


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=60), st.lists(st.integers(0, 200), max_size=4))
def test_characters_split_between_reads_stay_whole(text: str, cuts: list[int]) -> None:
    data = text.encode() + b"\n"
    places = sorted({0, len(data), *(at % len(data) for at in cuts)})
    pieces = [data[a:b] for a, b in pairwise(places)]
    for terminal in (True, False):
        assert shown(pieces, terminal=terminal) == data


@given(st.lists(st.binary(max_size=40), max_size=6), st.booleans())
def test_any_bytes_become_harmless_text(pieces: list[bytes], terminal: bool) -> None:
    text = shown(pieces, terminal=terminal).decode("utf-8")
    assert "\x1b]" not in text
    assert "\0" not in text


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    out = io.BytesIO()
    text = LogText(out, terminal=False)
    for _ in range(64):
        text.write(b"x" * 65536)
    assert len(text._bars) <= 65536
    text.finish()
    assert len(out.getvalue()) == 64 * 65536 + 1


def test_tables_fit_their_width_and_wide_signs_count_twice() -> None:
    assert cell_width("日本") == 4
    assert cut("日本語", 5) == "日本…"
    table = columns(("A", "B"), [("x" * 10, "line\x1b[2J" + "y" * 100)], width=20)
    assert all(cell_width(line) <= 20 for line in table.splitlines())
    assert "\x1b" not in table
