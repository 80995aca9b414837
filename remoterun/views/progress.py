"""One line that says how far something is, on a terminal; silent elsewhere."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

from remoterun.views.tables import seconds

_EVERY_S = 0.2


def size_words(size: float) -> str:
    """Bytes in the unit that people would choose: ``1.5 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


@dataclass
class Bar:
    """Bytes done, rate, time left, on stderr. Call it with bytes done and bytes in all."""

    what: str
    _began: float = field(default_factory=time.monotonic)
    _shown: float = 0.0
    _first: int | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show it, at most five times a second, once it has taken a second; gone when all is done."""
        now = time.monotonic()
        if self._first is None:
            self._first, self._began = done, now
        if done >= total:
            self.clear()
            return
        if not sys.stderr.isatty() or now - self._began < 1 or now - self._shown < _EVERY_S:
            return
        self._shown = now
        rate = (done - self._first) / max(now - self._began, 0.001)
        left = seconds((total - done) / rate) if rate > 0 else "-"
        sys.stderr.write(
            f"\r\033[K{self.what}: {size_words(done)} of {size_words(total)}, {size_words(rate)}/s, {left} left"
        )
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        self._first, self._shown = None, 0.0
