"""The imported model inside an artifact: its forward graph as text, its larger constants beside it. The contents of the
parameters are in the artifact's `params.safetensors`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from safetensors.numpy import load, save

from pockengine.ir import Array, Graph, Value, parse, render

MODEL = "model.txt"
CONSTANTS = "model_constants.safetensors"
INLINE_BYTES = 256
"""Constants up to this size are part of the text."""


def model_members(model: Graph) -> dict[str, bytes]:
    """The members that hold a model. In the text a larger constant is a parameter, whose name says where it is."""
    large = {value: array for value, array in model.consts.items() if array.nbytes > INLINE_BYTES}
    small = {value: array for value, array in model.consts.items() if value not in large}
    text = render(model.with_(params=(*model.params, *large), consts=small))
    stored = {value.name: np.asarray(array, order="C") for value, array in large.items()}
    return {MODEL: text.encode(), **({CONSTANTS: save(stored)} if stored else {})}


def read_model(members: Mapping[str, object], read: Callable[[str], bytes], params: Mapping[str, Array]) -> Graph:
    """The model that `model_members` wrote, with these contents of its parameters."""
    model = parse(read(MODEL).decode())
    stored = load(read(CONSTANTS)) if CONSTANTS in members else {}
    constants: dict[Value, Array] = {value: stored[value.name] for value in model.params if value.name in stored}
    own = tuple(value for value in model.params if value not in constants)
    data = {value.name: params[value.name] for value in own}
    return model.with_(params=own, consts={**model.consts, **constants}, data=data)
