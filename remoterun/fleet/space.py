"""Making room on a host: what would go, and letting it go."""

from __future__ import annotations

from dataclasses import dataclass

from remoterun.errors import RemoterunError
from remoterun.fleet.listing import project_key
from remoterun.host.conversation import Conversation
from remoterun.host.jobs import judge, parse_scan
from remoterun.host.remote import Remote
from remoterun.model.host import Keep
from remoterun.model.job import JobState, JobStatus
from remoterun.plan.keep import Removal, StoredJob, StoredTree, choose_removals


@dataclass(frozen=True, slots=True)
class Space:
    """One host: what may go, how much is taken in all and free, in KiB."""

    removal: Removal
    used_kib: int
    free_kib: int | None


def look_at_space(remote: Remote, keep: Keep | None) -> Space:
    """What may go by ``keep``. Touches nothing."""
    with remote.converse() as conversation:
        return _space(remote, conversation, keep)


def make_room(remote: Remote, removal: Removal) -> tuple[str, ...]:
    """Remove what was chosen; what could not be removed, in words. A job that has come to life meanwhile stays."""
    workdir, failed = remote.host.workdir, []
    with remote.converse() as conversation:
        for job in removal.jobs:
            reply = conversation.ask("rr_remove", [workdir, job.id, "lost"], libraries=["lib", "jobs"], timeout=3600)
            if reply.status not in (0, 3):
                why = "a process of it is alive" if reply.status == 6 else reply.error_text or f"status {reply.status}"
                failed.append(f"{job.id}: {why}")
        for tree in removal.trees:
            words = [workdir, tree.project, tree.tree]
            reply = conversation.ask("rr_remove_tree", words, libraries=["lib", "space"], timeout=3600)
            if reply.status:
                failed.append(f"snapshot {tree.tree}: {reply.error_text}")
        conversation.ask("rr_remove_leftovers", [workdir], libraries=["lib", "space"], timeout=3600)
    return tuple(failed)


def _space(remote: Remote, conversation: Conversation, keep: Keep | None) -> Space:
    workdir = remote.host.workdir
    scanning = conversation.post("rr_scan", [workdir, "-1"], libraries=["lib", "jobs"])
    measuring = conversation.post("rr_space", [workdir], libraries=["space"])
    scan = parse_scan(remote.check(conversation.collect(scanning), "listing jobs").out)
    text = remote.check(conversation.collect(measuring, timeout=1800), "measuring").text
    sizes: dict[str, tuple[int, int]] = {}
    free = None
    for line in text.splitlines():
        words = line.split(" ", 2)
        if len(words) == 3 and words[0].isdigit() and words[1].isdigit():
            sizes[words[2]] = (int(words[0]), int(words[1]))
        elif line.startswith("free="):
            free = int(line[5:]) if line[5:].isdigit() else None
    judged = (judge(signs, scan, remote.host.name) for signs in scan.jobs)
    jobs = [_stored(job, sizes) for job in judged if job is not None and f"jobs/{job.id}" in sizes]
    trees = [
        StoredTree(path.split("/")[1], path.split("/")[2], at, kib)
        for path, (kib, at) in sizes.items()
        if path.startswith("trees/") and path.count("/") == 2 and "/.aside" not in path
    ]
    if not scan.now:
        raise RemoterunError(f"{remote.host.name} did not say what time it is", host=remote.host.name)
    return Space(choose_removals(jobs, trees, keep, scan.now), sum(kib for kib, _ in sizes.values()), free)


def _stored(job: JobStatus, sizes: dict[str, tuple[int, int]]) -> StoredJob:
    kib, at = sizes[f"jobs/{job.id}"]
    snapshot, rerun_of = job.record.get("snapshot"), job.record.get("rerun_of")
    # A host that shares this folder may be running it: unknown is never called ended.
    ended = job.state.ended and job.state is not JobState.UNKNOWN
    tree = str(snapshot.get("tree")) if isinstance(snapshot, dict) else ""
    return StoredJob(job.id, ended, at, kib, project_key(job) or "", tree, str(rerun_of) if rerun_of else None)
