"""A job's log for a terminal or a pipe: harmless, readable, and as quick as it came.

On a terminal colour and carriage returns stay (progress bars move); what retitles or clears the screen,
moves it elsewhere or asks the terminal questions is taken out. In a pipe each line comes in its last state:
a bar that was redrawn a thousand times is one line. Characters split between reads stay whole.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from typing import BinaryIO

# Control sequences (ECMA-48): CSI … final, OSC/DCS/PM/APC/SOS strings, two-byte escapes, 8-bit C1 never as bytes
# (they are parts of UTF-8 characters).
_CSI = rb"\x1b\[[0-?]*[ -/]*[@-~]"
_STRING = rb"\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|(?=\x1b))"
_SHORT = rb"\x1b[ -/]*[0-Z\\`-~]"
_ESCAPES = re.compile(rb"|".join((_CSI, _STRING, _SHORT)))
# Kept on a terminal: colours, and the two with which progress bars redraw (erase line, cursor up and down).
_HARMLESS = re.compile(rb"\x1b\[[0-9;:]*m|\x1b\[[0-2]?K|\x1b\[\d{0,2}[AB]")
# Deleted by translate, which is twenty times as quick as a regular expression.
_CONTROL = bytes(sign for sign in (*range(0x20), 0x7F) if sign not in b"\t\n\r\x1b")
_OPEN_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]{0,4096}\x1b?|[ -/]*)?\Z")
_STRING_BEGINS = re.compile(rb"\x1b[\]PX^_]")
_LONGEST = 1 << 16


@dataclass
class LogText:
    """Writes log bytes to ``out``. ``terminal``: whether it is one; ``raw``: the bytes as they are."""

    out: BinaryIO
    terminal: bool
    raw: bool = False
    _held: bytes = b""
    _bars: bytes = b""
    _line_open: bool = field(default=False)

    @classmethod
    def for_stdout(cls, *, raw: bool) -> LogText:
        """For this process's stdout."""
        return cls(sys.stdout.buffer, sys.stdout.isatty() and os.environ.get("TERM") != "dumb", raw)

    def write(self, data: bytes) -> None:
        """Show a piece of the log."""
        if not self.raw:
            data = self._clean(data)
            if not self.terminal:
                data = self._last_states(data)
        if data:
            self._line_open = not data.endswith(b"\n")
            self.out.write(data)
            self.out.flush()

    def finish(self) -> None:
        """Show what is still held back; on a terminal, leave a line that was not ended."""
        held, self._held = self._held, b""
        rest = _ESCAPES.sub(b"", held).replace(b"\x1b", b"").decode("utf-8", "replace").encode()
        bars, self._bars = self._bars + rest, b""
        shown = bars if self.raw or self.terminal else _last_state(bars)
        if shown:
            self._line_open = True
            self.out.write(shown)
        if self._line_open and not self.raw:
            self.out.write(b"\n")
        self._line_open = False
        self.out.flush()

    def _clean(self, data: bytes) -> bytes:
        """Without harmful control codes; a sequence or character that is cut at the end waits for its rest."""
        data = self._held + data
        keep = min(_incomplete(data), _LONGEST)
        data, self._held = (data[:-keep], data[-keep:]) if keep else (data, b"")
        if b"\x1b" in data:
            terminal = self.terminal
            data = _ESCAPES.sub(lambda found: found[0] if terminal and _HARMLESS.fullmatch(found[0]) else b"", data)
            # An escape that begins nothing we know.
            data = re.sub(rb"\x1b(?!\[)", b"", data)
        data = data.translate(None, _CONTROL)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            data = data.decode("utf-8", "replace").encode()
        return data

    def _last_states(self, data: bytes) -> bytes:
        """Whole lines, each in its last state; the open line waits (its last 64 KiB at the most)."""
        data = self._bars + data
        cut = data.rfind(b"\n") + 1
        ready, self._bars = data[:cut], data[cut:]
        if len(self._bars) > _LONGEST:
            last = self._bars.rfind(b"\r") + 1
            if last:
                self._bars = self._bars[last:]
            else:
                ready, self._bars = ready + self._bars, b""
        if b"\r" not in ready:
            return ready
        return b"\n".join(_last_state(line) for line in ready.split(b"\n"))


def _last_state(line: bytes) -> bytes:
    """What of a line a terminal would show after its carriage returns."""
    parts = [part for part in line.split(b"\r") if part]
    return parts[-1] if parts else b""


def _incomplete(data: bytes) -> int:
    """How many bytes at the end begin a character or a control sequence that is not whole yet."""
    strings = list(_STRING_BEGINS.finditer(data, max(0, len(data) - 4200)))
    begun = strings[-1] if strings else None
    if begun and not re.search(rb"\x07|\x1b", data[begun.end() :].rstrip(b"\x1b")):
        return len(data) - begun.start()
    escape = data.rfind(b"\x1b", max(0, len(data) - 4200))
    if escape >= 0 and _OPEN_ESCAPE.match(data, escape):
        return len(data) - escape
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            need = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return back if need > back else 0
    return 0
