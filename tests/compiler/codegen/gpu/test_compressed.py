"""Products that read a block-quantised weight: against the interpreter, compiled for GPUs, in whole training steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pockengine.codegen import backends
from pockengine.codegen.cuda.architecture import parsed
from pockengine.codegen.cuda.build import compiled
from pockengine.codegen.gpu.launches import kernels_of
from pockengine.compile import Request, compile, plan_programs
from pockengine.ir import DType, Node, TensorType, Value
from pockengine.ops import decompresses
from pockengine.ops.quantised import DEQUANTIZE, BlockFormat, dequantize
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.harness import Case, Library, compare
from tests.compiler.codegen.test_compressed import cases, exact_cases
from tests.compiler.training.frozen_models import batch, graph
from tests.sweeps import some

H100 = get("h100")


@pytest.mark.parametrize("compute", ["f32", "bf16"])
def test_products_are_those_of_the_numbers(compute: str, tmp_path: Path) -> None:
    """In bf16 of numbers that it holds: all that is left is rounded sums."""
    chosen = cases(0, 2) if compute == "f32" else exact_cases(2, 2)
    lower, target = backends.get("emulated").lower, replace(H100, compute=compute)
    library = EmulatedLibrary(
        tmp_path, chosen, get("host"), 1, ("-O1",), lambda node, _, threads: lower(node, target, threads), "cuda"
    )
    texts = [call.kernel.source for one in library.lowered for call in one.calls]
    assert any("MMA_" in text and "scale_of" in text for text in texts) == (compute == "bf16")
    for index, case in enumerate(chosen):
        for pair in (None, *library.lowered[index].inplace):
            compare(case, library.run(index, 1, pair), f"in place {pair}", 1e-4, 2e-5)


def test_every_code_of_a_float_is_decoded_as_pytorch_does(tmp_path: Path) -> None:
    """By numpy, by C and by a GPU's C; two codes are NaN, which the quantiser never makes."""
    codes = np.setdiff1d(np.arange(256), [0x7F, 0xFF]).astype(np.uint8).reshape(2, 127)
    packed, scales = np.zeros((2, 128), np.uint8), np.full((2, 8), 0x3F80, np.uint16)
    packed[:, :127] = codes
    expected = torch.from_numpy(codes).view(torch.float8_e4m3fn).float().numpy()
    np.testing.assert_array_equal(dequantize(packed, scales, BlockFormat.FP8, 16, codes.shape), expected)
    types = [TensorType(DType.U8, packed.shape), TensorType(DType.U16, scales.shape)]
    node = Node(
        DEQUANTIZE,
        tuple(Value(f"x{i}", type) for i, type in enumerate(types)),
        (Value("y", TensorType(DType.F32, codes.shape)),),
        {"format": "fp8", "block": 16, "shape": codes.shape},
    )
    case = Case(node, (packed, scales))
    (tmp_path / "c").mkdir()
    (found,) = Library(tmp_path / "c", [case], get("host"), 1).run(0, 1)
    np.testing.assert_array_equal(found, expected)
    lower = backends.get("emulated").lower
    (tmp_path / "gpu").mkdir()
    library = EmulatedLibrary(tmp_path / "gpu", [case], get("host"), 1, ("-O1",), lower, "cuda")
    np.testing.assert_array_equal(library.run(0, 1, None)[0], expected)


@needs_compiler
@pytest.mark.parametrize("compute", ["f32", "bf16"])
def test_no_register_spills(compute: str) -> None:
    lower, target = backends.get("cuda").lower, replace(H100, compute=compute)
    calls = [call for case in exact_cases(2, 1) for call in lower(case.node, target, 1).calls]
    for text in kernels_of(calls).values():
        assert compiled("kernel", text, parsed("sm_87")).spill_bytes == 0


@pytest.mark.parametrize("weights", some([one.value for one in BlockFormat], 2))
def test_steps_are_those_of_the_c_backend(weights: str) -> None:
    recipe = Recipe(
        optimizer={"name": "sgd", "lr": 0.05, "momentum": 0.9},
        frozen={"weights": weights},
        lora={"params": "*.query", "rank": 4},
    )
    found = {}
    for backend in ("c", "emulated"):
        with compile(graph(), recipe, threads=2, backend=backend).load() as session:
            found[backend] = [session.step(batch(step)) for step in range(4)]
    assert found["emulated"] == pytest.approx(found["c"], rel=1e-4)


@pytest.mark.parametrize("weights", ["int4", "fp8"])
def test_no_weight_of_a_product_is_in_memory_as_f32(weights: str) -> None:
    recipe = Recipe(frozen={"weights": weights}, lora={"params": "*.query", "rank": 4})
    planned = plan_programs(Request(graph(), recipe, H100, backend=backends.get("cuda")))
    nodes = [step.node for step in planned.programs["train"].steps]
    assert not any(decompresses(node) for node in nodes)
    inside = [node for node in nodes if node.body is not None and any(map(decompresses, node.body.nodes))]
    assert len(inside) > 10
