"""Which GPUs a job gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoterun.errors import GpusTaken, PlanError, UsageError
from remoterun.model.gpu import Gpu, GpuProcess, GpuReport, GpuState, Lease
from remoterun.plan.gpus import GpuChoice, choose, cuda_environment, parse_request


def gpu(index: int, state: GpuState = GpuState.FREE, **more: object) -> Gpu:
    made = Gpu(
        index,
        f"GPU-{index}",
        name="A100",
        state=state,
        pickable=state is GpuState.FREE,
        memory_used_mib=4,
        memory_total_mib=81920,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def report(*gpus: Gpu) -> GpuReport:
    return GpuReport(gpus, available=True)


def pick(text: str | None, *gpus: Gpu, seed: int = 1) -> GpuChoice:
    return choose(parse_request(text), report(*gpus), seed=seed)


def test_all_healthy_gpus_by_default() -> None:
    assert pick(None, gpu(0), gpu(1, GpuState.DISPLAY), gpu(2), gpu(3, GpuState.ERROR)).indices == (0, 2)


def test_all_is_refused_when_some_are_taken_naming_holders_and_ways_out() -> None:
    busy = gpu(1, GpuState.BUSY, processes=(GpuProcess(77, "bob", 100, "python x.py"),))
    leased = gpu(2, GpuState.RESERVED, lease=Lease("train-0101-000000-abcd", "ann", "2026-01-01T00:00:00Z"))
    with pytest.raises(GpusTaken) as caught:
        pick(None, gpu(0), busy, leased)
    for word in ("bob", "77", "train-0101-000000-abcd", "ann"):
        assert word in caught.value.message
    assert "--gpus 1" in caught.value.hint


def test_who_holds_several_gpus_is_named_once() -> None:
    lease = Lease("train-0101-000000-abcd", "ann", "2026-01-01T00:00:00Z")
    held = [gpu(index, GpuState.RESERVED, lease=lease) for index in (0, 1, 3)]
    for asked in (None, "4", "0,1,3"):
        with pytest.raises(GpusTaken) as caught:
            pick(asked, *held, gpu(2))
        assert "0, 1, 3 by job train-0101-000000-abcd of ann" in caught.value.message
        assert caught.value.message.count("train-") == 1


def test_counts_names_and_none() -> None:
    four = [gpu(index) for index in range(4)]
    assert len(pick("2", *four).uuids) == 2
    assert pick("1,3", *four).uuids == ("GPU-1", "GPU-3")
    assert pick("1-3", *four).indices == (1, 2, 3)
    assert pick("2,", *four).indices == (2,)
    assert pick("GPU-2", *four).indices == (2,)
    assert cuda_environment(pick("none", *four)) == {"CUDA_VISIBLE_DEVICES": ""}
    assert cuda_environment(pick("1,3", *four)) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-3",
    }


def test_a_host_without_gpus() -> None:
    assert cuda_environment(pick(None)) == {}
    with pytest.raises(PlanError):
        pick("2")


@pytest.mark.parametrize("state", [GpuState.ERROR, GpuState.LOST, GpuState.MIG])
def test_broken_and_split_cards_are_refused_even_by_name(state: GpuState) -> None:
    with pytest.raises(PlanError):
        pick("0,", gpu(0, state, reason="why"))


def test_too_many() -> None:
    with pytest.raises(GpusTaken):
        pick("2", gpu(0), gpu(1, GpuState.BUSY))
    with pytest.raises(PlanError) as caught:
        pick("3", gpu(0), gpu(1), gpu(2, GpuState.ERROR, reason="fell off"))
    assert "fell off" in caught.value.message
    with pytest.raises(PlanError):
        pick("7,", gpu(0))


def test_one_model_and_no_favourite() -> None:
    mixed = [gpu(0, name="T4"), gpu(1), gpu(2), gpu(3, name="T4"), gpu(4)]
    assert set(pick("3", *mixed).indices) == {1, 2, 4}
    chosen = {pick("1", *[gpu(index) for index in range(8)], seed=seed).indices for seed in range(200)}
    assert len(chosen) > 4, "not everybody takes the first"


@pytest.mark.parametrize("text", ["", "x", "1,1", "-1", "0,x", "3-1", "1;2", "all,1"])
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_request(text)


@given(st.text(max_size=12))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        parse_request(text)
    except UsageError:
        return
