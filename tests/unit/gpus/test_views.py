"""What is shown of GPUs, from values alone: bars, rows, filters, metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoterun.errors import HostError
from remoterun.fleet.watching import Reading
from remoterun.model.gpu import Gpu, GpuProcess, GpuReport, GpuState, HostLoad, Lease, Round
from remoterun.plan.gpu_filter import GpuFilter, filter_words, parse_filter
from remoterun.views.gpus import host_block
from remoterun.views.live.marks import bar, graph, level, spark, thinned
from remoterun.views.live.rows import SORTS, Look, rows
from remoterun.views.prometheus import exposition
from remoterun.views.tables import cell_width

FREE = Gpu(0, "GPU-0", name="NVIDIA A100", state=GpuState.FREE, pickable=True, utilization_pct=0, memory_used_mib=4, memory_total_mib=81920)  # fmt: skip
BUSY = replace(
    FREE,
    index=1,
    uuid="GPU-1",
    state=GpuState.BUSY,
    pickable=False,
    utilization_pct=93,
    lease=Lease("train-0101-000000-abcd", "ann", "2026-01-01T00:00:00Z"),
    processes=(GpuProcess(77, "ann", 1000, "/usr/bin/python train.py"),),
)
BLIND = Gpu(2, "GPU-2", state=GpuState.ERROR, reason="util read [Unknown Error]")


def reading(*gpus: Gpu, host: str = "h1", at: float = 100.0) -> Reading:
    report = GpuReport(gpus, available=True, driver="570")
    load = HostLoad("ann", 64, 1.5, 1 << 20, 1 << 19, None, 1 << 21)
    return Reading(host, Round(load, report), at, None, count=1, history={"GPU-1": (0, 50, None, 100)})


def text(found: list[str]) -> str:
    return "\n".join(found)


def shown(look: Look, *readings: Reading) -> list[str]:
    return ["".join(part for part, _ in row.spans) for row in rows(readings, look)]


@pytest.mark.parametrize("width", [20, 80, 100, 130, 200])
def test_every_width_shows_the_same_cards(width: int) -> None:
    found = shown(Look(width, 100.0, 2.0), reading(FREE, BUSY, BLIND))
    assert len(found) == 4
    assert "93%" in found[2]
    assert "train-0101" in found[2]
    assert "-%" in found[3], "unknown is never 0"
    assert "0%" not in found[3]


def test_old_values_are_grey_and_say_their_age() -> None:
    old = replace(reading(FREE), error=HostError("cut"))
    found = rows([old], Look(120, 130.0, 2.0))
    assert "30s old: cut" in "".join(part for part, _ in found[0].spans)
    assert {style for part, style in found[1].spans if part.strip()} == {"dim"}


def test_orders_put_the_unknown_last() -> None:
    for sort in SORTS[1:]:
        found = shown(Look(120, 100.0, 2.0, sort=sort), reading(BLIND, FREE, BUSY))
        assert len(found) == 3
        if sort in ("util", "memory"):
            assert found[2].split()[1] == "2"


def test_a_grid_of_hundreds_stays_inside_its_width() -> None:
    many = [replace(BUSY, index=number, uuid=f"GPU-{number}") for number in range(300)]
    found = shown(Look(80, 100.0, 2.0, grid=True), reading(*many, BLIND))
    assert all(cell_width(line) <= 80 for line in found)
    assert text(found).count("!") == 1
    assert text(shown(Look(80, 100.0, 2.0, grid=True, ascii_only=True), reading(FREE, BUSY))).isascii()


def test_groups_have_their_sums() -> None:
    look = Look(80, 100.0, 2.0, groups={"lab": ("h1", "h2"), "other": ("h9",)})
    assert shown(look, reading(FREE), reading(BUSY, host="h2"))[0].startswith("@lab  2 hosts  2 GPUs, 1 free  util 46%")


def test_filters() -> None:
    for typed, kept in (("free", [0]), ("mine", [1]), ("user:ann", [1]), ("user:bob", []), ("host:h2", []), ("host:h*", [0, 1, 2]),
                        ("job:train", [1]), ("state:error", [2]), ("python", [1]), ("a100 free", [0])):  # fmt: skip
        wanted = parse_filter(typed)
        assert [gpu.index for gpu in (FREE, BUSY, BLIND) if wanted.keeps("h1", gpu, "ann")] == kept, typed
        assert parse_filter(filter_words(wanted)) == wanted
    assert parse_filter("") == GpuFilter()


def test_metrics_leave_out_what_is_not_known_and_escape_the_rest() -> None:
    odd = replace(FREE, name='a"b\\c\nd')
    lines = exposition([reading(odd, BLIND), Reading("dark", error=HostError("x"))], 101.0).splitlines()
    assert 'remoterun_host_up{host="dark"} 0' in lines
    assert not [line for line in lines if line.startswith("remoterun_gpu_utilization_ratio") and "GPU-2" in line]
    assert 'remoterun_gpu_memory_used_bytes{host="h1",gpu="0",uuid="GPU-0",name="a\\"b\\\\c\\nd"} 4194304' in lines
    names = [line.split(" ")[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_the_table_is_plain_and_cut_to_the_width() -> None:
    block = host_block(reading(FREE, BUSY, BLIND), GpuFilter(), width=60, colour=False)
    assert all(cell_width(line) <= 60 for line in block.splitlines())
    assert "\033" not in block
    assert "ann:python/77(1000M)" in host_block(reading(BUSY), GpuFilter(), width=0, colour=False)
    nasty = replace(BUSY, processes=(GpuProcess(1, "eve", None, "\033[2Jevil"),))
    assert "\033" not in host_block(reading(nasty), GpuFilter(), width=0, colour=False)
    assert "\033" not in text(shown(Look(200, 100.0, 2.0), reading(nasty)))


@given(st.lists(st.none() | st.integers(0, 100), max_size=300), st.integers(1, 200), st.booleans())
def test_marks_have_their_width(values: list[float | None], width: int, ascii_only: bool) -> None:
    assert len(spark(values, width, ascii_only=ascii_only)) == width
    assert all(len(line) == width for line in graph(values, width, 5, ascii_only=ascii_only))
    assert len(thinned(values, width)) == min(len(values), width)
    for value in values:
        assert len(level(value, ascii_only=ascii_only)) == 1
        assert len(bar(None if value is None else value / 100, width, ascii_only=ascii_only)) == width
