"""Refreshing what is known of a host, again and again, over one open conversation: one round trip each.

What changes slowly (the disk, whose processes belong to which job) is asked in every fifteenth round only, so that
the others start nothing on the host but ``ps`` and ``nvidia-smi``. The next round is asked for when the last one
has been answered: a driver that hangs is never asked twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from remoterun.host.conversation import Conversation
from remoterun.host.gpus import HIGHEST_TIER, jobs_of, parse
from remoterun.host.look import FIRST_PROBE_S, parse_leases, with_jobs
from remoterun.host.remote import Remote, new_nonce
from remoterun.model.gpu import GpuReport, HostLoad, Round

_EVERY = 15
_LATER_PROBE_S = 8
_LIBRARIES = ("lib", "facts", "leases", "gpus")


@dataclass
class Rounds:
    """The state between the rounds of one host: what its driver accepts, what was asked rarely."""

    remote: Remote
    conversation: Conversation
    _count: int = 0
    _tier: int = HIGHEST_TIER
    _slow: HostLoad = field(default_factory=HostLoad)
    _jobs: dict[int, str] = field(default_factory=dict)

    def next(self) -> Round:
        """One round; waits for as long as the host takes. Raises LinkLost, HostError."""
        deep = self._count % _EVERY == 0
        bound = FIRST_PROBE_S if self._count == 0 else _LATER_PROBE_S
        self._count += 1
        nonce = new_nonce()
        host = self.remote.host
        arguments = [":".join(host.path), nonce, str(bound), str(self._tier), "1" if deep else "", host.workdir]
        number = self.conversation.post("rr_round", arguments, libraries=_LIBRARIES)
        output = self.conversation.collect(number, timeout=None).out
        head = output.decode("utf-8", "replace").partition(f"\n{nonce} ")[0]
        if deep:
            self._jobs = jobs_of(output, nonce)
        report = with_jobs(parse(output, nonce, parse_leases(head)), self._jobs)
        if report.tier is not None:
            self._tier = report.tier
        self._slow = parse_load(head, self._slow)
        return Round(self._slow, _settled(report), _took(output, nonce))

    def history(self, job: str, lines: int = 2000) -> str:
        """The newest lines of a job's gpu.csv; empty where there is none, or it is another login's."""
        arguments = [self.remote.host.workdir, job, str(lines)]
        return self.conversation.ask("rr_gpu_history", arguments, libraries=_LIBRARIES).text


def parse_load(text: str, known: HostLoad) -> HostLoad:
    """The lines ``key=value`` of a round; what it does not say stays as ``known``."""
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("lease="))
    load = (values.get("load") or "").split(" ")[0]
    return replace(
        known,
        user=values.get("user") or known.user,
        cpus=_number(values.get("cpus"), known.cpus),
        load=float(load) if load.replace(".", "", 1).isdigit() else None,
        memory_total_kib=_number(values.get("memory_total"), None),
        memory_available_kib=_number(values.get("memory_available"), None),
        disk_total_kib=_number(values.get("disk_total"), known.disk_total_kib),
        disk_available_kib=_number(values.get("disk_available"), known.disk_available_kib),
    )


def _number(text: str | None, otherwise: int | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 18 else otherwise


def _took(output: bytes, nonce: str) -> float | None:
    word = output.rpartition(f"{nonce} took ".encode())[2].strip()
    return int(word) / 100 if word.isdigit() and len(word) < 12 else None


def _settled(report: GpuReport) -> GpuReport:
    """With a note on drivers that are started anew by every look (persistence mode off)."""
    off = [gpu.index for gpu in report.gpus if gpu.persistence is False and not gpu.display and gpu.fan_pct is None]
    if not off:
        return report
    which = ", ".join(str(index) for index in off)
    hint = f"persistence mode is off on GPU {which}: each look may start the driver (root can: nvidia-smi -pm 1)"
    return replace(report, warnings=(*report.warnings, hint))
