"""The live view of ``remoterun gpus``: keys, screens, and the clock that redraws them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Input, Static

from remoterun.fleet.watching import Watch
from remoterun.plan.gpu_filter import GpuFilter, filter_words, parse_filter
from remoterun.views.live.detail import gpu_rows, job_rows
from remoterun.views.live.lines import Lines
from remoterun.views.live.rows import SORTS, Look, Row, rows, totals
from remoterun.views.tables import cut

_KEYS = "q quit  / filter  f free  m mine  s sort  g grid  Enter GPU  j job  l logs  a attach  ? help"
_HELP = (
    ("up down PgUp PgDn Home End", "move"),
    (
        "/",
        "filter: free, mine, user:NAME, host:PATTERN, job:JOB, state:WORD, other words; Enter sets it, Esc leaves it",
    ),
    ("f  m  Esc", "only free GPUs, only your own, everything"),
    ("s", "sort by " + ", ".join(SORTS)),
    (
        "g",
        "grid: a column for each GPU, as high as it is busy; a dot is free, ! broken, x lost, m MIG, d display, ? unknown",
    ),
    ("Enter", "everything about the GPU under the cursor"),
    ("j", "its job: each GPU over the whole run"),
    ("l  a", "the job's log, the job's tmux session; leaving them leads back here"),
    ("Ctrl-Z", "to the shell; fg leads back"),
    ("q  Ctrl-C", "quit"),
)


class Detail(Screen[None]):
    """One GPU or one job."""

    BINDINGS = [Binding("escape,q,backspace", "dismiss", show=False)]  # noqa: RUF012

    def __init__(self, view: LiveView, row: Row, *, of_job: bool) -> None:
        super().__init__()
        self.view = view
        self.row = row
        self.of_job = of_job
        self.history = ""

    def compose(self) -> ComposeResult:
        """The lines, and what can be typed."""
        yield Lines(cursor=False)
        yield Static("Esc back  l logs  a attach", classes="bottom", markup=False)

    def on_mount(self) -> None:
        """Draw at once; the history is fetched beside."""
        self.query_one(Lines).focus()
        self.redraw()
        self.set_interval(1.0, self.redraw)
        if self.row.job:
            self.fetch()
            self.set_interval(15.0, self.fetch)

    @work(thread=True, exclusive=True)
    def fetch(self) -> None:
        """The job's own record of its GPUs. It may take as long as the host does."""
        self.history = self.view.watch_.history(self.row.host, self.row.job or "")

    def redraw(self) -> None:
        """From what is known now."""
        reading = self.view.watch_.reading(self.row.host)
        look = self.view.look()
        if self.of_job:
            shown = job_rows(reading, self.row.job or "", look, self.history)
        else:
            shown = gpu_rows(reading, self.row.uuid or "", look, self.history)
        self.query_one(Lines).show_rows(shown)


class Help(Screen[None]):
    """The keys."""

    BINDINGS = [Binding("escape,q,question_mark,enter", "dismiss", show=False)]  # noqa: RUF012

    def compose(self) -> ComposeResult:
        """All of them."""
        yield Lines(cursor=False)
        yield Static("Esc back", classes="bottom", markup=False)

    def on_mount(self) -> None:
        """They do not change."""
        self.query_one(Lines).focus()
        shown = [Row(("help", keys), ((f"{keys:<28}", "bold"), (text, ""))) for keys, text in _HELP]
        self.query_one(Lines).show_rows(shown)


class LiveView(App[None]):
    """All hosts."""

    CSS = """
    Screen, Lines, Static, Input { background: ansi_default; color: ansi_default; }
    Lines { height: 1fr; scrollbar-size: 0 0; }
    .top { height: 1; text-style: bold; }
    .bottom { height: 1; text-style: dim; }
    Input { height: 1; border: none; padding: 0; display: none; }
    Input:focus { border: none; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [  # noqa: RUF012
        Binding("q", "quit", show=False),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
        Binding("slash", "ask_filter", show=False),
        Binding("f", "only('free')", show=False),
        Binding("m", "only('mine')", show=False),
        Binding("s", "sort", show=False),
        Binding("g", "grid", show=False),
        Binding("enter", "detail(False)", show=False),
        Binding("j", "detail(True)", show=False),
        Binding("l", "jump('logs')", show=False),
        Binding("a", "jump('attach')", show=False),
        Binding("question_mark", "help", show=False),
        Binding("escape", "clear", show=False),
    ]

    def __init__(
        self,
        watch: Watch,
        wanted: GpuFilter,
        groups: Mapping[str, Sequence[str]],
        command: Sequence[str],
        ascii_only: bool,
    ) -> None:
        super().__init__(ansi_color=True)
        self.watch_ = watch
        self.wanted = wanted
        self.groups = groups
        self.command = tuple(command)
        self.ascii_only = ascii_only
        self.sort = "host"
        self.grid = False
        self._stale_at = 0.0

    def compose(self) -> ComposeResult:
        """A line of totals, the hosts, a line of keys."""
        yield Static("", classes="top", markup=False)
        yield Lines()
        yield Input(placeholder="free mine user:NAME host:PATTERN job:JOB state:WORD text")
        yield Static(_KEYS, classes="bottom", markup=False)

    def on_mount(self) -> None:
        """Begin to redraw."""
        self.main = self.query_one(Lines)
        self.main.focus()
        self.set_interval(0.5, self.tick)
        for number in (signal.SIGTERM, signal.SIGHUP):
            # The terminal is given back as it was, whatever ends us.
            self._loop_signal(number)
        self.redraw()

    def _loop_signal(self, number: int) -> None:
        import asyncio

        asyncio.get_running_loop().add_signal_handler(number, self.exit)

    def look(self) -> Look:
        """How it is looked at now."""
        return Look(
            width=self.size.width,
            now=time.monotonic(),
            beat_s=self.watch_.beat_s,
            wanted=self.wanted,
            sort=self.sort,
            grid=self.grid,
            ascii_only=self.ascii_only,
            groups=self.groups,
        )

    def tick(self) -> None:
        """Draw what came; ages also grow where nothing comes."""
        now = time.monotonic()
        if self.watch_.changes() or now - self._stale_at >= 2.0:
            self._stale_at = now
            self.redraw()

    def on_resize(self) -> None:
        """Other columns."""
        self.call_after_refresh(self.redraw)

    def redraw(self) -> None:
        """All of it, from what is known now."""
        readings = self.watch_.readings()
        self.main.show_rows(rows(readings, self.look()))
        words = [totals(readings)]
        if self.sort != "host":
            words.append(f"by {self.sort}")
        if not self.wanted.empty:
            words.append(f"filter: {filter_words(self.wanted)}")
        self.query_one(".top", Static).update(cut("  ".join(words), self.size.width))

    def action_only(self, what: str) -> None:
        """``free`` or ``mine``, on and off."""
        words = [word for word in filter_words(self.wanted).split() if word != what]
        on = what not in filter_words(self.wanted).split()
        self.wanted = parse_filter(" ".join([*words, what] if on else words))
        self.redraw()

    def action_clear(self) -> None:
        """No filter."""
        self.wanted = GpuFilter()
        self._end_input()
        self.redraw()

    def action_sort(self) -> None:
        """The next order."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.redraw()

    def action_grid(self) -> None:
        """The grid, on and off."""
        self.grid = not self.grid
        self.redraw()

    def action_ask_filter(self) -> None:
        """Type a filter."""
        line = self.query_one(Input)
        line.display = True
        line.value = filter_words(self.wanted)
        # At once: keys typed behind the slash are for it.
        self.screen.set_focus(line)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """It is typed."""
        self.wanted = parse_filter(event.value)
        self._end_input()
        self.redraw()

    def _end_input(self) -> None:
        self.query_one(Input).display = False
        self.main.focus()

    def action_detail(self, of_job: bool) -> None:
        """The GPU, or the job, under the cursor."""
        row = self.main.current
        if row is not None and (row.job if of_job else row.uuid) and not isinstance(self.screen, (Detail, Help)):
            self.push_screen(Detail(self, row, of_job=of_job))

    def action_help(self) -> None:
        """The keys."""
        if not isinstance(self.screen, Help):
            self.push_screen(Help())

    def action_jump(self, where: str) -> None:
        """To the job's log or session, and back when that is left."""
        row = self.screen.row if isinstance(self.screen, Detail) else self.main.current
        if row is None or not row.job:
            return
        words = [*self.command, where, "-H", row.host, *(["-f"] if where == "logs" else []), row.job]
        with self.suspend():
            # A handler of ours: Ctrl-C is for the command that runs there.
            before = signal.signal(signal.SIGINT, lambda *_: None)
            try:
                status = subprocess.run(words, check=False).returncode
                if status != 130 and not (where == "attach" and status == 0):
                    sys.stdout.write("-- Enter leads back to the GPUs --")
                    sys.stdout.flush()
                    sys.stdin.readline()
            finally:
                signal.signal(signal.SIGINT, before)


def run_live(
    watch: Watch, wanted: GpuFilter, groups: Mapping[str, Sequence[str]], command: Sequence[str], *, ascii_only: bool
) -> None:
    """Show it until the user has had enough. ``command`` is how remoterun itself is run."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    LiveView(watch, wanted, groups, command, ascii_only or encoding != "utf8").run()
