"""What PyTorch computes in float64 for the referee."""

from __future__ import annotations

from typing import Any

import torch

from pockengine.verify.sides.torch_double import in_double


def test_a_deep_copy_is_given_what_was_copied_so_far_itself() -> None:
    tensor = torch.ones(2)
    copied: dict[int, Any] = {}
    with in_double():
        twin = tensor.__deepcopy__(copied)
    assert copied[id(tensor)] is twin
