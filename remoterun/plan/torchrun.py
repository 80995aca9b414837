"""The torchrun command line of one node. PURE."""

from __future__ import annotations

from remoterun.model.job import Command


def torchrun_argv(command: Command, python: str, nproc: int, ranks_folder: str, max_restarts: int) -> tuple[str, ...]:
    """One node, ``nproc`` processes, a port that torchrun picks itself (so two jobs never want the same).

    Rank 0 writes straight into the job's log, so that its progress bars stay live; the others are copied
    there line by line with their rank in front, and stand alone under ``ranks_folder``.
    Underscores in the options: every torch since 1.9 knows that spelling.
    """
    argv = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={nproc}"]
    if max_restarts:
        argv.append(f"--max_restarts={max_restarts}")
    if nproc > 1:
        others = ",".join(f"{rank}:3" for rank in range(1, nproc))
        argv += [f"--log_dir={ranks_folder}", f"--tee={others}"]
    if command.kind == "module":
        argv.append("-m")
    return (*argv, command.target, *command.arguments)


def torchrun_environment(nproc: int, cpus: int | None) -> dict[str, str]:
    """Variables that torchrun and its workers want.

    After a restart torchrun hands its workers the old store with stale addresses unless sharing is off
    (measured on torch 2.7 to 2.13; see the trainer notes). Threads: the cores shared out among the ranks,
    where torchrun would take one each.
    """
    return {
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "OMP_NUM_THREADS": str(max(1, (cpus or nproc) // nproc)),
        "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[rank ${rank}] ",
    }
