"""At zeros, ties, infinities, bounds and saturation, values and gradients of every op record are PyTorch's: in the
reference, and in machine code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from pockengine import interp, ops
from pockengine.ir import Array
from pockengine.ops import Op, Sample
from tests.compiler import pytorch
from tests.compiler.gradients import WEIGHTS, in_machine_code, weights, with_gradients
from tests.compiler.records import graph_of, inputs_of

OUTPUT = "0"


def _samples() -> Iterator[tuple[Op, Sample, str]]:
    for op in ops.all_ops():
        if not isinstance(op.singular, str):
            yield from ((op, sample, f"{op.name}-{index}") for index, sample in enumerate(op.singular))


SAMPLES = list(_samples())


def _given(op: Op, sample: Sample) -> dict[str, Array]:
    graph = graph_of(op, sample)
    return {**inputs_of(graph, sample), WEIGHTS: weights(graph, OUTPUT)}


def _in_pytorch(op: Op, sample: Sample) -> dict[str, Array]:
    """The output's value, and the gradients of the inputs that have one."""
    graph, given = graph_of(op, sample), _given(op, sample)
    tensors = {name: torch.tensor(array) for name, array in given.items()}
    leaves = {name: t.requires_grad_() for name, t in tensors.items() if t.is_floating_point() and name != WEIGHTS}
    value = pytorch.run(graph.nodes[0], [tensors[v.name] for v in graph.inputs])[int(OUTPUT)]
    found = torch.autograd.grad((value * tensors[WEIGHTS]).sum(), list(leaves.values()), allow_unused=True)
    gradients = {name: g.numpy() for name, g in zip(leaves, found, strict=True) if g is not None}
    return {"value": value.detach().numpy(), **gradients}


def _compare(found: dict[str, Array], expected: dict[str, Array], note: str, rtol: float) -> None:
    """What one side has no gradient of is zero on the other."""
    for name in sorted(found.keys() | expected.keys()):
        want = expected.get(name, np.zeros(1))
        got = found.get(name, np.zeros(want.shape))
        np.testing.assert_allclose(got, want, rtol=rtol, atol=2e-5, err_msg=f"{note} {name}")


def test_every_differentiable_record_says_where_it_is_singular() -> None:
    assert [op.name for op in ops.all_ops() if ops.differentiable(op.name) and not op.singular] == []


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize(("op", "sample"), [pytest.param(op, sample, id=name) for op, sample, name in SAMPLES])
def test_values_and_gradients_are_pytorchs(op: Op, sample: Sample) -> None:
    with np.errstate(all="ignore"):
        found = interp.evaluate(with_gradients(graph_of(op, sample), OUTPUT), _given(op, sample))
    _compare(found, _in_pytorch(op, sample), op.name, rtol=1e-4)


def test_machine_code_agrees_with_the_reference(tmp_path: Path) -> None:
    """With all infinities and NaN where the reference has them. Models come with images NCHW."""
    samples = [one for one in SAMPLES if one[1].attrs.get("layout") != "NHWC"]
    graphs = [with_gradients(graph_of(op, sample), OUTPUT) for op, sample, _ in samples]
    given = [_given(op, sample) for op, sample, _ in samples]
    results = in_machine_code(graphs, given, tmp_path)
    for (_, _, name), graph, arrays, found in zip(samples, graphs, given, results, strict=True):
        assert not isinstance(found, str), f"{name}: {found}"
        with np.errstate(all="ignore"):
            _compare(found, interp.evaluate(graph, arrays), name, rtol=1e-4)
