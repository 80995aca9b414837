"""A fake nvidia-smi for one host: replays a sample folder, or shows cards that the test sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "cases" / "nvidia-smi"

SCRIPT = """\
#!/bin/sh
# Answers from files beside it, by what is asked. Test double for a card that is not here.
here={here}
echo "$*" >>"$here/calls"
if [ -e "$here/hang" ]; then sleep "$(cat "$here/hang")"; fi
case "$*" in
  *--query-gpu=index*) name=core ;;
  *--query-gpu=timestamp*) name=sample ;;
  *gpu_recovery_action*) name=ext3 ;;
  *fabric.state*) name=ext2 ;;
  *memory.reserved*) name=ext1 ;;
  *--query-compute-apps*) name=apps ;;
  *-q*-x*) name=xml ;;
  *-L*) name=list ;;
  *) name=table ;;
esac
[ -e "$here/$name" ] || name=default
cat "$here/$name" 2>/dev/null
[ ! -e "$here/$name.err" ] || cat "$here/$name.err" >&2
exit "$(cat "$here/$name.rc" 2>/dev/null || echo 0)"
"""


@dataclass(frozen=True)
class Process:
    """A process on a fake card."""

    pid: int
    memory_mib: int = 1000
    name: str = "python"


@dataclass(frozen=True)
class Card:
    """A fake card; healthy and idle unless told otherwise."""

    index: int
    uuid: str
    name: str = "NVIDIA A100-SXM4-80GB"
    used_mib: int = 4
    total_mib: int = 81920
    utilization: str = "0"
    processes: Sequence[Process] = ()

    def core(self) -> str:
        """Its row of the core query."""
        used = self.used_mib + sum(process.memory_mib for process in self.processes)
        cells = [
            self.index, self.uuid, f"00000000:{self.index + 1:02X}:00.0", "550.54.15", self.utilization, 0, self.total_mib,
            used, self.total_mib - used, 34, "61.40", "400.00", "[N/A]", "P0", "Default", "Enabled", "Disabled", "Disabled",
            self.name,
        ]  # fmt: skip
        return ", ".join(str(cell) for cell in cells)


def cards(count: int, host: str = "host") -> list[Card]:
    """``count`` idle cards with UUIDs of their own."""
    return [Card(index, f"GPU-{abs(hash(host)) % 10**8:08d}-0000-0000-0000-{index:012d}") for index in range(count)]


@dataclass
class FakeNvidia:
    """The files behind one host's fake."""

    folder: Path
    binary: Path
    _cards: list[Card] = field(default_factory=list)

    def install(self) -> None:
        """Put the program into the host's PATH."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o777)
        (self.folder / "calls").touch()
        (self.folder / "calls").chmod(0o666)
        self.binary.write_text(SCRIPT.format(here=self.folder))
        self.binary.chmod(0o755)

    def show(self, cards: Sequence[Card]) -> None:
        """From now on these cards are there."""
        self.install()
        self._cards = list(cards)
        self._put("core", "".join(card.core() + "\n" for card in cards))
        for tier, cells in ((3, "0, 8.0, N/A, N/A, None"), (2, "0, 8.0, N/A, N/A"), (1, "0, 8.0")):
            self._put(f"ext{tier}", "".join(f"{card.uuid}, {cells}\n" for card in cards))
        rows = [
            f"{card.uuid}, {process.pid}, {process.memory_mib}, {process.name}\n"
            for card in cards
            for process in card.processes
        ]
        self._put("apps", "".join(rows))
        self._put(
            "sample",
            "".join(f"2026/01/01 00:00:00.000, {card.index}, {card.uuid}, 50, 1000, 40, 200\n" for card in cards),
        )
        self._put("default", "fake nvidia-smi\n")

    @property
    def shown(self) -> list[Card]:
        """The cards that are there now."""
        return list(self._cards)

    def replay(self, sample: str) -> None:
        """Show one of the sample folders."""
        self.install()
        folder = SAMPLES / sample
        for run in json.loads((folder / "expected.json").read_text(encoding="utf-8"))["runs"]:
            name = kind(run["command"])
            if name is None or (self.folder / name).exists():
                continue
            (self.folder / name).write_bytes((folder / run["stdout"]).read_bytes())
            (self.folder / f"{name}.rc").write_text(str(run["rc"]))
            if run["stderr"]:
                (self.folder / f"{name}.err").write_text(run["stderr"])

    def hang(self, seconds: int | None) -> None:
        """Make every call take that long; None ends it."""
        if seconds is None:
            (self.folder / "hang").unlink(missing_ok=True)
        else:
            self._put("hang", str(seconds))

    def fail(self, status: int, text: str) -> None:
        """Make the core query fail."""
        self.install()
        self._put("core", text)
        self._put("core.rc", str(status))

    def remove(self) -> None:
        """No nvidia-smi on this host."""
        self.binary.unlink(missing_ok=True)

    def calls(self) -> list[str]:
        """The arguments of every call so far."""
        return (self.folder / "calls").read_text().splitlines()

    def _put(self, name: str, text: str) -> None:
        aside = self.folder / f".{name}.new"
        aside.write_text(text)
        aside.replace(self.folder / name)


def kind(command: str) -> str | None:
    """Which of the fake's files answers a command."""
    if "--query-gpu=index" in command:
        return "core"
    if "gpu_recovery_action" in command:
        return "ext3"
    if "fabric.state" in command:
        return "ext2"
    if "memory.reserved" in command:
        return "ext1"
    if "compute-apps" in command:
        return "apps"
    if "-q -x" in command:
        return "xml"
    return "list" if command.endswith("-L") else None
