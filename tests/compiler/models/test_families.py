"""Ten steps of every model family against PyTorch; `python -m benchmarks.coverage` prints the same as a table."""

from __future__ import annotations

import pytest

from tests.sweeps import ALL, some

from .agreement import agreement, kinds
from .families import FAMILIES

TRAINED = {name: kinds(family) for name, family in FAMILIES.items() if not family.brief}
TURNS = [(name, found[place % len(found)]) for place, (name, found) in enumerate(TRAINED.items())]
CASES = [(name, kind) for name, found in TRAINED.items() for kind in found] if ALL else some(TURNS, 16)
"""Every sixteenth family, the recipes in turns; with POCK_ALL=1 each with all of its recipes."""
INTERPRETED = (
    "convnext_v2", "maxvit", "hrnet", "retinanet", "mask_rcnn_head", "encodec", "conformer", "s4d", "mamba", "hyena",
    "bilstm_crf", "gat", "egnn", "pointnet2", "dgcnn", "tabnet", "dlrm", "sasrec", "kan", "glow", "spline_flow",
    "unet2d_condition", "heat_pinn", "forces", "nerf", "fno", "gradient_penalty", "byol", "experts", "ppo",
    "llava", "paligemma", "qwen2-vl",
)  # fmt: skip
"""Of the brief families, one for each thing that the others have not; the benchmark trains all of them."""


@pytest.mark.parametrize("name, kind", CASES)
def test_ten_steps_agree_with_pytorch(name: str, kind: str) -> None:
    found = agreement(name, kind)
    assert found.updated
    assert not found.problems


@pytest.mark.parametrize("name", some(INTERPRETED, 16))
def test_ten_interpreted_steps_agree_with_pytorch(name: str) -> None:
    found = agreement(name, "full", interpreted=True)
    assert found.updated
    assert not found.problems
