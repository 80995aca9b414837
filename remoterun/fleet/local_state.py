"""What this machine remembers between commands: only ever a help, never a truth that is decided upon."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class LocalState:
    """Folders of the user's own: ``state`` (hosts used, last known jobs), ``cache`` (hashes, manifests)."""

    state: Path
    cache: Path

    @classmethod
    def default(cls) -> LocalState:
        """The places of this platform."""
        from platformdirs import user_cache_path, user_state_path

        return cls(user_state_path("remoterun"), user_cache_path("remoterun"))

    def hosts_used(self) -> tuple[str, ...]:
        """Names of the hosts that were used before from this machine, the latest first."""
        names = self._read("hosts.json")
        return tuple(str(name) for name in names) if isinstance(names, list) else ()

    def add_host(self, name: str) -> None:
        """Remember a host that a job was launched on."""
        known = self.hosts_used()
        if known[:1] != (name,):
            self._write("hosts.json", [name, *(other for other in known if other != name)][:500])

    def add_answered(self, names: Iterable[str]) -> None:
        """Remember hosts that were looked at: later commands look there too."""
        known = self.hosts_used()
        new = [name for name in names if name not in known and name != "local"]
        if new:
            self._write("hosts.json", [*known, *new][:500])

    def last_known(self) -> dict[str, dict[str, Any]]:
        """The last state seen of each job, by id: for showing beside "unknown", with its age."""
        jobs = self._read("jobs.json")
        return {key: value for key, value in jobs.items() if isinstance(value, dict)} if isinstance(jobs, dict) else {}

    def remember(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Keep what was just seen (documents with ``id``, ``host``, ``state``, ``seen``)."""
        new = {str(job["id"]): dict(job) for job in jobs}
        known = self.last_known()
        if any(known.get(key) != value for key, value in new.items()):
            merged = {**known, **new}
            newest = sorted(merged.items(), key=lambda item: str(item[1].get("seen", "")))[-2000:]
            self._write("jobs.json", dict(newest))

    def forget(self, job_id: str) -> None:
        """The job is gone from its host."""
        known = self.last_known()
        if known.pop(job_id, None) is not None:
            self._write("jobs.json", known)

    def hashes(self, project_key: str) -> Path:
        """The file of a project's known hashes."""
        return self.cache / "hashes" / f"{project_key}.bin"

    def manifest(self, tree: str) -> Path:
        """The file of a snapshot's manifest."""
        return self.cache / "trees" / f"{tree}.bin"

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self.state / name).read_bytes())
        except (OSError, ValueError):
            return None

    def _write(self, name: str, value: object) -> None:
        # Two commands at once: the last one wins, whole. A disk that cannot be written is no error here.
        try:
            self.state.mkdir(parents=True, exist_ok=True, mode=0o700)
            aside = self.state / f".{name}.{os.getpid()}"
            aside.write_text(json.dumps(value), encoding="utf-8")
            aside.replace(self.state / name)
        except OSError:
            return
