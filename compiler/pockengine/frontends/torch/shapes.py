"""Running a module for the shapes of what it computes: no number is computed, and no parameter is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree


@contextlib.contextmanager
def shapes_alone(module: nn.Module, arguments: Any) -> Iterator[Any]:
    """While the block runs, tensors are computed as their shapes; gives the arguments as such tensors. Buffers that the
    module replaces meanwhile are put back."""
    kept = [(part, dict(part._buffers)) for part in module.modules()]
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            yield pytree.tree_map_only(Tensor, mode.from_tensor, arguments)
    finally:
        for part, buffers in kept:
            part._buffers.clear()
            part._buffers.update(buffers)
