"""Where the data of a step's kernels comes from, and what the share of a level's bandwidth is made of."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from pockengine.artifact import Manifest
from pockengine.codegen.c.measure import streams
from pockengine.codegen.common.region import bytes_of
from pockengine.codegen.tunable import Bandwidth, Peak
from pockengine.insight.levels import Place, Touched, sources, touched
from pockengine.insight.profile import read
from pockengine.ir import Node, Value, parse_type
from pockengine.targets import get, machine
from pockengine.targets.machine import Cache

KB = 1 << 10
L1, L2 = 64 * KB, 1024 * KB
PEAK = Peak(1e12, (Bandwidth("L1", L1, 8e11), Bandwidth("L2", L2, 4e11), Bandwidth("DRAM", None, 1e10)), 1)


def step(*tensors: tuple[int, int], scratch: tuple[int, int] | None = None) -> Touched:
    """What touches tensors of (offset, bytes) in the arena, in KB."""
    places = [Place("arena", offset * KB, nbytes * KB) for offset, nbytes in tensors]
    own = () if scratch is None else (Place("arena", scratch[0] * KB, scratch[1] * KB),)
    return Touched(tuple(places), own)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([step((0, 16), (16, 16))], [[1, 0, 0]]),
        ([step((0, 400))], [[0, 1, 0]]),
        ([step((0, 4000))], [[0, 0, 1]]),
        # what comes last is still near, what came before it is not
        (
            [step((0, 32)), step((1000, 200)), step((0, 32)), step((0, 32))],
            [[1, 0, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0]],
        ),
        # half of what a kernel reads was just written, the other half is read once a step
        ([step((0, 16)), step((0, 16), (2000, 16)), step((4000, 4000))], [[0, 0, 1], [0.5, 0, 0.5], [0, 0, 1]]),
        # scratch memory pushes out what lies there
        ([step((0, 32)), step((100, 8), scratch=(2000, 200))], [[0, 1, 0], [0, 1, 0]]),
        ([step((0, 32), (4, 0)), step()], [[1, 0, 0], [0, 0, 0]]),
    ],
)
def test_where_data_comes_from(steps: list[Touched], expected: list[list[float]]) -> None:
    assert sources(steps, [L1, L2]) == expected


def test_larger_caches_never_bring_data_farther_away() -> None:
    rng = np.random.default_rng(3)
    steps = [
        step(*((int(rng.integers(0, 3000)), int(rng.integers(1, 300))) for _ in range(rng.integers(1, 4))))
        for _ in range(40)
    ]
    found = [np.array(sources(steps, [size, 4 * size])) for size in (32 * KB, 128 * KB, 512 * KB, 4096 * KB)]
    for parts in found:
        np.testing.assert_allclose(parts.sum(axis=1), 1.0)
    for smaller, larger in pairwise(found):
        assert (larger[:, 0] >= smaller[:, 0]).all() and (larger[:, 2] <= smaller[:, 2]).all()


def test_a_step_of_gigabytes_is_looked_at_in_larger_blocks() -> None:
    large = Touched((Place("param", 0, 8 << 30),))
    assert sources([large, step((0, 512))], [L1, 1 << 30]) == [[0, 0, 1], [0, 0, 1]]


def manifest(seconds: tuple[float, float], with_operands: bool = True) -> tuple[Manifest, dict]:
    """A program of two kernels: 4 MB are read and written, then 32 KB of that; and its measured report."""
    nodes = [
        {"index": i, "name": name, "op": "add", "kernel": name, "flops": 10**6, "bytes": nbytes, "phase": "forward"}
        | ({"operands": [["arena", offset, nbytes]]} if with_operands else {})
        for i, (name, offset, nbytes) in enumerate([("large", 0, 4 << 20), ("small", (4 << 20) - 32 * KB, 32 * KB)])
    ]
    made = object.__new__(Manifest)
    for name, value in {"name": "net", "programs": {"train": {"nodes": nodes, "slots": []}}}.items():
        object.__setattr__(made, name, value)
    kernels = [
        {"name": node["name"], "kernel": node["kernel"], "node": node["index"], "ms": 1e3 * time}
        | {key: node[key] for key in ("flops", "bytes")}
        for node, time in zip(nodes, seconds, strict=True)
    ]
    return made, {"threads": 1, "steps": 3, "step_ms": {"median": 1e3 * sum(seconds)}, "kernels": kernels}


def test_the_share_of_bandwidth_is_that_of_the_level() -> None:
    least = (4 << 20) / 1e10, 32 * KB / 8e11
    large, small = read(*manifest((2 * least[0], least[1])), PEAK).kernels
    assert (large.level, large.bytes_from, small.level, small.bytes_from) == (
        "DRAM", {"DRAM": 4 << 20}, "L1", {"L1": 32 * KB},
    )  # fmt: skip
    assert large.of_bandwidth == pytest.approx(0.5) and small.of_bandwidth == pytest.approx(1.0)
    assert large.of_peak == pytest.approx(1e6 / (2 * least[0]) / 1e12)


@pytest.mark.parametrize(("peak", "with_operands"), [(None, True), (PEAK, False)])
def test_nothing_is_said_of_what_is_not_known(peak: Peak | None, with_operands: bool) -> None:
    for one in read(*manifest((1e-3, 1e-3), with_operands), peak).kernels:
        assert (one.level, one.of_bandwidth, one.bytes_from) == (None, None, {})
        assert (one.of_peak is None) == (peak is None)


def test_calls_of_one_node_share_its_work_by_their_time() -> None:
    made, report = manifest((1e-3, 1e-3))
    first, second = report["kernels"]
    report["kernels"] = [{**first, "ms": 0.25, "flops": 0}, {**first, "ms": 0.75}, second]
    packing, multiplying, other = read(made, report, PEAK).kernels
    assert (packing.flops, multiplying.flops, other.flops) == (25e4, 75e4, 1e6)
    assert packing.of_bandwidth == pytest.approx(multiplying.of_bandwidth)


def test_scratch_memory_is_that_of_the_plan() -> None:
    slots = [{"value": "s", "offset": 128, "nbytes": 64, "first": 0, "last": 0, "kind": "workspace"}]
    program = {"nodes": [{"operands": [["param", 0, 8]]}], "slots": slots}
    assert touched(program) == [Touched((Place("param", 0, 8),), (Place("arena", 128, 64),))]


def test_what_picks_rows_of_a_table_moves_no_more_than_those() -> None:
    types = [parse_type(text) for text in ("f32[30000,64]", "i64[5]", "f32[5,64]")]
    table, indices, rows = (Value(f"v{i}", type) for i, type in enumerate(types))
    assert bytes_of(Node("gather", (table, indices), (rows,), {"axis": 0})) == 2 * rows.type.nbytes + 5 * 8


CACHES = {
    "own L2, shared L3": (Cache(1, 48 * KB, 1), Cache(2, 1 << 20, 1), Cache(3, 32 << 20, 8)),
    "SMT": (Cache(1, 32 * KB, 2), Cache(2, 1 << 20, 2), Cache(3, 30 << 20, 96)),
    "no L3": (Cache(1, 32 * KB, 1), Cache(2, 1 << 20, 4)),
    "not told": (),
}


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("caches", CACHES.values(), ids=CACHES)
def test_arrays_fit_their_level_and_none_nearer(
    caches: tuple[Cache, ...], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "caches", lambda: caches)
    target = replace(get("host"), ram_bytes=64 << 30)
    found = streams.levels(target, threads)
    sizes = [streams.array_bytes(found, index, target) for index in range(len(found))]
    assert [level.name for level in found] == [f"L{i + 1}" for i in range(len(found) - 1)] + ["DRAM"]
    for level, size in zip(found[:-1], sizes, strict=False):
        assert level.nbytes is not None and size <= level.nbytes
    for nearer, size in zip(found[:-1], sizes[1:], strict=True):
        assert nearer.nbytes is not None and size >= 2 * nearer.nbytes
    for size in sizes:
        moved = {stream.moved for stream in streams.streams(target, size, threads)}
        assert all(count > 0 for count in moved)


def test_caches_as_the_system_lists_them() -> None:
    found = machine.caches()
    assert [cache.level for cache in found] == sorted({cache.level for cache in found})
    assert all(cache.nbytes > 1 << 10 and cache.cores >= 1 for cache in found)
    assert machine._count("0-3,8") == 5 and machine._count("2") == 1
