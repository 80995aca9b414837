"""Which runtime a job gets, and why."""

from __future__ import annotations

import pytest

from remoterun.errors import UsageError
from remoterun.model.host import Host
from remoterun.model.job import Command, JobSpec
from remoterun.plan.launch import choose_runtime


@pytest.mark.parametrize(
    ("asked", "image", "host", "host_image", "dockerfile", "runtime"),
    [
        (None, None, "auto", None, False, "none"),
        (None, None, "auto", None, True, "docker"),
        (None, None, "auto", "i", False, "docker"),
        (None, "i", "auto", None, False, "docker"),
        ("none", None, "auto", "i", True, "none"),
        ("podman", None, "none", None, False, "podman"),
        (None, None, "none", "i", True, "none"),
        # An image that was typed is never left out without a word.
        (None, "i", "none", None, False, "docker"),
        (None, "i", "podman", None, False, "podman"),
    ],
)
def test_what_was_typed_wins(
    asked: str | None, image: str | None, host: str, host_image: str | None, dockerfile: bool, runtime: str
) -> None:
    spec = JobSpec("j", Command("script", "a.py"), runtime=asked, image=image)
    assert choose_runtime(spec, Host("h", runtime=host, image=host_image), dockerfile)[0] == runtime


def test_a_contradiction_is_refused() -> None:
    with pytest.raises(UsageError, match="--image"):
        choose_runtime(JobSpec("j", Command("script", "a.py"), runtime="none", image="i"), Host("h"), False)
