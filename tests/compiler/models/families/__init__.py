"""Every model family that has to import, train and match PyTorch, at reduced size."""

from ..family import Family
from . import (
    audio,
    backbones,
    decoders,
    detection,
    diffusion,
    encoders,
    graphs,
    multimodal,
    points,
    scientific,
    signal,
    state_space,
    tables,
    training_schemes,
    vision,
)

_MODULES = (
    vision, encoders, decoders, signal, backbones, detection, diffusion, audio, state_space, graphs, points, tables,
    scientific, training_schemes, multimodal,
)  # fmt: skip
FAMILIES: dict[str, Family] = {family.name: family for module in _MODULES for family in module.FAMILIES}
