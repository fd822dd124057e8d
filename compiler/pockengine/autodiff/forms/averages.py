"""Moving averages of parameters (Polyak; as timm's ModelEmaV2): states that eval and predict read in their place."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir import Builder, Graph, Value, substitute, verify


def average_state(builder: Builder, param: Value) -> Value:
    """The state `NAME.ema`, which starts with the parameter's contents; f32 where those have 16 bits, which would lose
    what an average moves by."""
    return builder.state(f"{param.name}.ema", param.type.widened(), param)


def averaged(model: Graph, params: Iterable[Value]) -> Graph:
    """The model with the averages of `params` in their place.

    %y = matmul(%x, %w)   ->   %y = matmul(%x, %w.ema)
    """
    builder = Builder(model.name)
    builder.adopt_sources(model)
    mapping = {param: average_state(builder, param) for param in params}
    for node in model.nodes:
        builder.keep(substitute(node, mapping))
    builder.outputs = {name: mapping.get(value, value) for name, value in model.outputs.items()}
    return verify(builder.finish(), "averaged")
