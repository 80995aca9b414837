"""A fake nvidia-smi for one host: replays a sample folder, or shows cards that the test sets.

What the program answers stands in a folder of files that is replaced as a whole, so that a query that runs
meanwhile sees the old or the new, never a mixture.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "cases" / "nvidia-smi"
_SCRIPT = Path(__file__).with_name("nvidia-smi.sh")
_CSV = "--format=csv,noheader,nounits"
CORE = (
    "index,uuid,pci.bus_id,driver_version,utilization.gpu,utilization.memory,memory.total,memory.used,memory.free,"
    "temperature.gpu,power.draw,power.limit,fan.speed,pstate,compute_mode,persistence_mode,display_active,"
    "mig.mode.current,name"
)
"""The fields of the samples' main query, in their order."""
_APPS = "gpu_uuid,pid,used_gpu_memory,process_name"


@dataclass(frozen=True)
class Process:
    """A process on a fake card."""

    pid: int
    memory_mib: int = 1000
    name: str = "python"


@dataclass(frozen=True)
class Card:
    """A fake card; healthy and idle unless told otherwise. ``fields`` overrides any field of the query by its name.

    ``used_mib`` is what is used besides the processes.
    """

    index: int
    uuid: str
    name: str = "NVIDIA A100-SXM4-80GB"
    used_mib: int = 4
    total_mib: int = 81920
    utilization: str = "0"
    processes: Sequence[Process] = ()
    driver: str = "570.86.15"
    fields: Mapping[str, str] = field(default_factory=dict)

    def row(self) -> dict[str, str]:
        """Its answer to every field known here, free text last."""
        used = self.used_mib + sum(process.memory_mib for process in self.processes)
        cells: dict[str, object] = {
            "index": self.index,
            "uuid": self.uuid,
            "pci.bus_id": f"00000000:{self.index + 1:02X}:00.0",
            "driver_version": self.driver,
            "utilization.gpu": self.utilization,
            "utilization.memory": 0,
            "memory.total": self.total_mib,
            "memory.used": used,
            "memory.free": self.total_mib - used,
            "memory.reserved": 0,
            "temperature.gpu": 34,
            "temperature.memory": "N/A",
            "power.draw": "61.40",
            "power.limit": "400.00",
            "enforced.power.limit": "400.00",
            "fan.speed": "[N/A]",
            "pstate": "P0",
            "compute_mode": "Default",
            "persistence_mode": "Enabled",
            "display_active": "Disabled",
            "mig.mode.current": "Disabled",
            "compute_cap": "8.0",
            "fabric.state": "N/A",
            "fabric.status": "N/A",
            "gpu_recovery_action": "None",
        }
        cells.update(self.fields)
        cells["name"] = self.name
        return {key: str(cell) for key, cell in cells.items()}

    def core(self) -> str:
        """Its row of the main query."""
        row = self.row()
        return ", ".join(row[name] for name in CORE.split(","))


def cards(count: int, host: str = "host") -> list[Card]:
    """``count`` idle cards with UUIDs of their own, the same for the same host name in every run."""
    return [Card(index, f"GPU-{zlib.crc32(host.encode()):08x}-0000-4000-8000-{index:012x}") for index in range(count)]


@dataclass(frozen=True)
class Answer:
    """What one call gives: the arguments as one line (``every``: any call), and the output."""

    arguments: str
    stdout: bytes
    status: int = 0
    stderr: str = ""
    every: bool = False


@dataclass
class FakeNvidia:
    """The files behind one host's fake. The program is there from the first :meth:`show` or :meth:`replay` on."""

    folder: Path
    binary: Path
    _cards: list[Card] = field(default_factory=list)
    _changes: int = 0

    def show(self, cards: Sequence[Card], *, without: Sequence[str] = ()) -> None:
        """From now on these cards are there. ``without``: fields that this driver does not know."""
        self._cards = list(cards)
        rows = [{key: cell for key, cell in card.row().items() if key not in without} for card in cards]
        if not rows:
            self._put([Answer("", b"No devices were found\n", 6, every=True)])
            return
        table = "".join(", ".join(row.values()) + "\n" for row in rows)
        apps = "".join(
            f"{card.uuid}, {process.pid}, {process.memory_mib}, {process.name}\n"
            for card in cards
            for process in card.processes
        )
        names = "".join(f"GPU {card.index}: {card.name} (UUID: {card.uuid})\n" for card in cards)
        self._put(
            [
                Answer(f"--query-gpu={','.join(rows[0])} {_CSV}", table.encode()),
                Answer(f"--query-compute-apps={_APPS} {_CSV}", apps.encode()),
                Answer("-L", names.encode()),
                Answer("", names.encode()),
            ]
        )

    @property
    def shown(self) -> list[Card]:
        """The cards that are there now."""
        return list(self._cards)

    def replay(self, sample: str, *outputs: str) -> None:
        """Show one of the sample folders. Where it holds several answers to one call, ``outputs`` names the files to use."""
        folder = SAMPLES / sample
        chosen: dict[str, Answer] = {}
        runs = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["runs"]
        for run in sorted(runs, key=lambda run: run["stdout"] not in outputs):
            program, _, rest = str(run["command"]).partition(" ")
            arguments = rest.partition(" #")[0].strip()
            if program != "nvidia-smi" or arguments in chosen:
                continue
            stdout = (folder / run["stdout"]).read_bytes()
            broken = run["rc"] != 0 and b"GPU-" not in stdout and arguments.startswith("--query-gpu=index")
            chosen[arguments] = Answer(arguments, stdout, run["rc"], run["stderr"], every=broken)
        self._cards = []
        if any(answer.status == 127 for answer in chosen.values()):
            self.remove()
        else:
            self._put(list(chosen.values()))

    def rows(self, text: str) -> None:
        """Have the main query give exactly this text; no processes, and no other fields are known."""
        self._cards = []
        self._put(
            [Answer(f"--query-gpu={CORE} {_CSV}", text.encode()), Answer(f"--query-compute-apps={_APPS} {_CSV}", b"")]
        )

    def hang(self, seconds: int | None) -> None:
        """Make every call take that much longer; None ends it."""
        if seconds is None:
            (self.folder / "hang").unlink(missing_ok=True)
        else:
            self._install()
            _write(self.folder / "hang", f"{seconds}\n")

    def fail(self, status: int, text: str) -> None:
        """Make every call fail, with this on stdout, as the real one does; :meth:`show` ends it."""
        self._put([Answer("", text.encode(), status, every=True)])

    def remove(self) -> None:
        """No nvidia-smi on this host."""
        self.binary.unlink(missing_ok=True)

    def calls(self) -> list[str]:
        """The arguments of every call so far."""
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def _install(self) -> None:
        self.folder.mkdir(exist_ok=True)
        if not (calls := self.folder / "calls").exists():
            calls.touch()
            calls.chmod(0o666)
        if not self.binary.exists():
            _write(self.binary, _SCRIPT.read_text().replace("@HERE@", str(self.folder)), 0o755)

    def _put(self, answers: Sequence[Answer]) -> None:
        self._changes += 1
        new = self.folder / f"answers{self._changes}"
        self.folder.mkdir(exist_ok=True)
        new.mkdir()
        for number, answer in enumerate(answers):
            stem = "every" if answer.every else f"{number:02d}"
            (new / f"{stem}.args").write_text(f"{answer.arguments}\n")
            (new / f"{stem}.out").write_bytes(answer.stdout)
            (new / f"{stem}.rc").write_text(f"{answer.status}\n")
            if answer.stderr:
                (new / f"{stem}.err").write_text(answer.stderr)
        aside = self.folder / "answers.new"
        aside.symlink_to(new.name)
        aside.replace(self.folder / "answers")
        self._install()


def _write(file: Path, text: str, mode: int = 0o644) -> None:
    aside = file.with_name(f".{file.name}.new")
    aside.write_text(text)
    aside.chmod(mode)
    aside.replace(file)
