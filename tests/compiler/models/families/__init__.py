"""Every model family that has to import, train and match PyTorch, at reduced size."""

from ..family import Family
from . import decoders, encoders, signal, vision

FAMILIES: dict[str, Family] = {
    family.name: family for family in (*vision.FAMILIES, *encoders.FAMILIES, *decoders.FAMILIES, *signal.FAMILIES)
}
