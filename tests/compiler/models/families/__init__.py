"""Every model family that has to import, train and match PyTorch, at reduced size."""

from ..family import Family
from . import language, signal, vision

FAMILIES: dict[str, Family] = {
    family.name: family for family in (*vision.FAMILIES, *language.FAMILIES, *signal.FAMILIES)
}
