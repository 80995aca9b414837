"""What watches over a job on its host while nobody looks: limits, restarts, news."""

from __future__ import annotations

from dataclasses import dataclass

# Below this utilisation (percent) a GPU counts as idle.
IDLE_BELOW_PCT = 5
# A silent log and idle GPUs for this long (seconds) is shown as a stall.
STALL_S = 900


@dataclass(frozen=True, slots=True)
class Restart:
    """When a failed job is begun again, on its host.

    ``most``: how many times (None: for ever). ``exit_codes``: only after these (empty: after any failure but
    "could not start", 125 to 127). ``delay_s``: the first pause; each further one is twice as long, up to five
    minutes.
    """

    most: int | None = None
    exit_codes: tuple[int, ...] = ()
    delay_s: int = 5


@dataclass(frozen=True, slots=True)
class Guards:
    """Times in seconds; None: no such guard. ``grace_s`` is what a guard that ends the job gives it to save."""

    restart: Restart | None = None
    timeout_s: int | None = None
    idle_s: int | None = None
    stall_s: int | None = STALL_S
    grace_s: int = 30
