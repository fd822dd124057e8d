"""The node tests of `onnx.backend.test`, and by what rule a case is one that a static compiler has to pass.

A case is eligible when every tensor that goes in or out is f32, bool or an integer of 8 to 64 bits, when its output
shapes are fixed once the inputs that ONNX reads as shapes, axes and counts are constants, and when it has no
sub-graph, string, sequence, optional or quantised type. `exclusion` says why a case is not."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import onnx
from onnx import defs, numpy_helper
from onnx.backend.test.loader import load_model_tests

from pockengine.frontends.onnx.importer import OLDEST_OPSET
from pockengine.ir import Array

_T = onnx.TensorProto
ELIGIBLE_TYPES = frozenset((
    _T.FLOAT, _T.BOOL, _T.INT8, _T.INT16, _T.INT32, _T.INT64, _T.UINT8, _T.UINT16, _T.UINT32, _T.UINT64,
))  # fmt: skip
OTHER_TYPES = {
    _T.STRING: "string",
    _T.DOUBLE: "double precision",
    _T.FLOAT16: "half precision",
    _T.BFLOAT16: "half precision",
    _T.COMPLEX64: "complex numbers",
    _T.COMPLEX128: "complex numbers",
}
"""What is neither is a type of fewer than 16 bits that exists to quantise."""

SETTINGS = frozenset((
    *("axes", "axis", "batch_indices", "block_shape", "delta", "depth", "dft_length", "ends", "frame_length"),
    *("frame_step", "image_shape", "k", "limit", "lower_edge_hertz", "max_output_boxes_per_class", "num_mel_bins"),
    *("output_shape", "pads", "ratio", "repeats", "roi", "sample_rate", "scales", "shape", "size", "sizes", "split"),
    *("start", "starts", "steps", "training_mode", "upper_edge_hertz"),
))  # fmt: skip
"""Formal inputs, as the operators' schemas name them, that say how a result is shaped or what is computed rather than
what with: real models have them as constants, and so have the cases here."""
SHAPE_INPUTS = {"ConstantOfShape": "input", "If": "cond", "Loop": "M", "TopK": "K"}
"""The same where the schema has no telling name."""

DATA_SIZED = frozenset(("Compress", "ImageDecoder", "NonMaxSuppression", "NonZero", "Unique"))
"""Operators whose result is as large as the contents of their data say."""

RANDOM = frozenset((
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
))  # fmt: skip

_NOISE = "ONNX expects the rounding noise of numpy's FFT, 2e-7, where the truth and our result are 0"
NOT_PASSED = {
    "test_dft_inverse": _NOISE,
    "test_dft_inverse_opset19": _NOISE,
    "test_ai_onnx_ml_tree_ensemble_set_membership": "decision trees are no part of a network that is trained",
}
"""Eligible cases that do not pass, and why."""


@dataclass(frozen=True)
class Case:
    """One node test: its model, its inputs by name, and the outputs that ONNX expects, in order."""

    name: str
    operator: str
    model: onnx.ModelProto
    inputs: dict[str, Array | None]
    outputs: list[Array]
    rtol: float
    atol: float

    without: bool = False

    @cached_property
    def settings(self) -> frozenset[str]:
        """Graph inputs that have to be known when compiling."""
        return frozenset() if self.without else frozenset(_settings(self.model.graph) & set(self.inputs))

    def without_settings(self) -> Case:
        """The same case with everything given at run time, as no real model has it."""
        return replace(self, without=True)

    @property
    def feeds(self) -> dict[str, Array]:
        """The inputs that are given at run time."""
        return {name: array for name, array in self.inputs.items() if name not in self.settings and array is not None}

    @cached_property
    def static(self) -> onnx.ModelProto:
        """The model with settings as initializers, and with an opset we read where its operators have not changed."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        constants = [(name, self.inputs[name]) for name in sorted(self.settings)]
        model.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in constants if a is not None)
        for entry in model.opset_import:
            if entry.domain == "" and _unchanged(model, entry.version):
                entry.version = max(entry.version, OLDEST_OPSET)
        return model

    @cached_property
    def exclusion(self) -> str | None:
        """Why the case is not eligible, or None."""
        return next(_exclusions(self), None)


@cache
def all_cases() -> tuple[Case, ...]:
    """Every node test, by operator and name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes overflows on purpose
        loaded = [case for case in load_model_tests(kind="node") if case.model is not None]
    first = {case.name: case.model.graph.node[0].op_type for case in loaded if case.model is not None}
    made = [_case(case, first.get(re.sub(r"_expanded.*$", "", case.name), first[case.name])) for case in loaded]
    return tuple(sorted(made, key=lambda case: (case.operator, case.name)))


def eligible_cases() -> tuple[Case, ...]:
    """The cases that a backend has to pass."""
    return tuple(case for case in all_cases() if case.exclusion is None)


def _case(case: object, operator: str) -> Case:
    model, ((inputs, outputs),) = case.model, case.data_sets  # type: ignore[attr-defined]
    names = [value.name for value in model.graph.input]
    arrays = [_array(value) for value in inputs]
    feeds = dict(zip(names, arrays, strict=False))
    return Case(case.name, operator, model, feeds, [_array(v) for v in outputs], case.rtol, case.atol)  # type: ignore


def _array(value: object) -> Array | None:
    """Tensors as arrays; sequences and optional values, which exclude a case, as None."""
    if isinstance(value, onnx.TensorProto):
        return np.asarray(numpy_helper.to_array(value))
    return np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None


def _settings(graph: onnx.GraphProto) -> set[str]:
    """Names of values that settings are, or are computed from (a shape is known whatever the contents)."""
    wanted: set[str] = set()
    for node in reversed(graph.node):
        if node.op_type not in ("Shape", "Size") and wanted.intersection(node.output):
            wanted.update(name for name in _reads(node) if name)
            continue
        own = SHAPE_INPUTS.get(node.op_type)
        wanted.update(name for name, formal in _formals(node) if formal in SETTINGS or formal == own)
    return wanted


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """What a node and its sub-graphs read."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _reads(inner)


def _formals(node: onnx.NodeProto) -> Iterator[tuple[str, str]]:
    """(actual, formal name) of a node's inputs; a variadic formal stands for all that remain."""
    try:
        formals = [formal.name for formal in defs.get_schema(node.op_type, node.domain).inputs]
    except defs.SchemaError:
        return
    for index, name in enumerate(node.input):
        if name and formals:
            yield name, formals[min(index, len(formals) - 1)]


def _unchanged(model: onnx.ModelProto, version: int) -> bool:
    """Whether no operator of the model has changed between its opset and the oldest that we read."""
    try:
        return all(
            defs.get_schema(node.op_type, OLDEST_OPSET, node.domain).since_version <= version
            for node in model.graph.node
            if not node.domain
        )
    except defs.SchemaError:
        return False


def _exclusions(case: Case) -> Iterator[str]:
    graph = case.model.graph
    operators = {node.op_type for node in graph.node}
    ports = [*graph.input, *graph.output]
    kinds = {value.type.WhichOneof("value") for value in ports}
    if "sequence_type" in kinds:
        yield "sequence"
    if "optional_type" in kinds:
        yield "optional"
    types = {value.type.tensor_type.elem_type for value in ports}
    if not types <= ELIGIBLE_TYPES | OTHER_TYPES.keys():
        yield "quantised type"
    for onnx_type, reason in OTHER_TYPES.items():
        if onnx_type in types:
            yield reason
    if any(attribute.HasField("g") or attribute.graphs for node in graph.node for attribute in node.attribute):
        yield "control flow"
    if operators & RANDOM or ("Dropout" in operators and _drops(case)):
        yield "random numbers"
    if _old(case):
        yield f"operator as it was before opset {OLDEST_OPSET}"
    if operators & DATA_SIZED:
        yield "dynamic shape"


def _old(case: Case) -> bool:
    return any(entry.domain == "" and entry.version < OLDEST_OPSET for entry in case.static.opset_import)


def _drops(case: Case) -> bool:
    """Whether a Dropout is in training mode with a ratio above zero."""
    (node,) = case.model.graph.node
    given = dict(zip(("data", "ratio", "training_mode"), (case.inputs.get(name) for name in node.input), strict=False))
    ratio, training = given.get("ratio"), given.get("training_mode")
    return training is not None and bool(training) and (ratio is None or float(ratio) != 0.0)
