"""What PyTorch computes in float64 for the referee."""

from __future__ import annotations

import copy

import torch
from torch import nn

from pockengine.verify.torch_double import in_double


def test_a_deep_copy_is_given_what_was_copied_so_far_itself() -> None:
    parameter, copied = nn.Parameter(torch.ones(2)), dict[int, object]()
    with in_double():
        copy.deepcopy(parameter, copied)
        twin = parameter.__deepcopy__(seen := dict[int, object]())
    assert id(parameter) in copied
    assert seen[id(parameter)] is twin
