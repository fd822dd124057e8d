"""ONNX's own node tests: every case of an operator that we translate is computed right or refused, never wrong."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import defs, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from pockengine.errors import PockError
from pockengine.frontends.onnx_file import from_proto
from pockengine.frontends.onnx_import import OLDEST_OPSET, import_model
from pockengine.frontends.operators import known
from pockengine.interp import evaluate

ELSEWHERE = ("bf16", "bfloat16", "fp16", "float16", "empty_set", "nan_robustness")
"""Cases that judge rounding of half precision in the op records, reductions of nothing, and rows masked completely."""


@cache
def cases() -> dict[str, list[TestCase]]:
    """The suite by operator, without what is not about the importer."""
    by_operator: dict[str, list[TestCase]] = defaultdict(list)
    for case in load_model_tests(kind="node"):
        if case.model is not None and not any(word in case.name for word in ELSEWHERE):
            by_operator[case.model.graph.node[0].op_type].append(case)
    return by_operator


def arrays(values: list) -> list[np.ndarray]:
    return [numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else np.asarray(v) for v in values]


def compute(case: TestCase, feeds: dict[str, np.ndarray], *, static: bool) -> list[np.ndarray]:
    """Import and evaluate; with `static`, integers and scalars are constants, as shapes and axes are in real models."""
    proto = onnx.ModelProto()
    proto.CopyFrom(case.model)
    operator, opset = proto.graph.node[0].op_type, proto.opset_import[0]
    if opset.version < OLDEST_OPSET and defs.get_schema(operator, OLDEST_OPSET).since_version <= opset.version:
        opset.version = OLDEST_OPSET  # the operator has not changed since
    if static:
        small = {name: array for name, array in feeds.items() if array.dtype.kind in "iub" or array.ndim == 0}
        proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in small.items())
    return list(evaluate(import_model(from_proto(proto), case.name), feeds).values())


@pytest.mark.parametrize("operator", known())
def test_operator(operator):
    computed = 0
    for case in cases()[operator]:
        for inputs, outputs in case.data_sets:
            feeds = dict(zip((value.name for value in case.model.graph.input), arrays(inputs), strict=False))
            for static in (False, True):
                try:
                    found = compute(case, feeds, static=static)
                except PockError:
                    continue
                computed += 1
                for ours, theirs in zip(found, arrays(outputs), strict=True):
                    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), case.name
                    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5, err_msg=case.name)
    assert computed or not cases()[operator], f"every case of {operator} was refused"
