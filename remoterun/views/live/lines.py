"""A scrolling list of styled lines: only what is on the screen is drawn."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from remoterun.views.live.rows import Row

_STYLES = {
    name: Style.parse(name) if name else Style()
    for name in ("", "bold", "dim", "green", "red", "yellow", "cyan", "magenta")
}
_CURSOR = Style(reverse=True)


class Lines(ScrollView, can_focus=True):
    """Rows, one of which may be under the cursor."""

    BINDINGS = [  # noqa: RUF012 - textual reads it so
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
    ]

    def __init__(self, *, cursor: bool = True) -> None:
        super().__init__()
        self._rows: list[Row] = []
        self._at = 0 if cursor else -1

    @property
    def current(self) -> Row | None:
        """The row under the cursor."""
        return self._rows[self._at] if 0 <= self._at < len(self._rows) else None

    def show_rows(self, rows: list[Row]) -> None:
        """Other rows; the cursor stays on what it was on."""
        here = self.current
        self._rows = rows
        if self._at >= 0:
            key = here.key if here else None
            same = next((number for number, row in enumerate(rows) if row.key == key), None)
            self._at = max(0, min(self._at if same is None else same, len(rows) - 1))
        self.virtual_size = Size(self.size.width, len(rows))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        number = y + self.scroll_offset.y
        width = self.size.width
        if number >= len(self._rows):
            return Strip.blank(width)
        segments = [Segment(text, _STYLES[style]) for text, style in self._rows[number].spans]
        strip = Strip(segments).adjust_cell_length(width)
        return strip.apply_style(_CURSOR) if number == self._at and self.has_focus else strip

    def action_move(self, by: int) -> None:
        """The cursor, or the screen where there is none."""
        if self._at < 0:
            self.scroll_relative(y=by, animate=False)
            return
        self._at = max(0, min(self._at + by, len(self._rows) - 1))
        self.scroll_to_region(Region(0, self._at, 1, 1), animate=False)
        self.refresh()

    def action_page(self, by: int) -> None:
        """A screen further."""
        self.action_move(by * max(1, self.size.height - 1))
