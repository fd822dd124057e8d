"""Boolean masks as indices. How many elements a mask chooses is data, which a program of static shapes cannot follow;
writing through one can do without: each element is either kept or taken from its place among those chosen."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`x.masked_scatter(mask, source)`: element k of `source` goes to the k-th place that the mask chooses. Where the
    mask is the same for a whole row, rows are moved instead of elements."""
    if not source.numel():
        return x
    mask = torch.broadcast_to(mask, x.shape)
    width = x.shape[-1] if x.dim() and (mask.stride()[-1] == 0 or x.shape[-1] == 1) else 1
    if source.numel() % width:
        width = 1
    chosen = mask[..., 0].reshape(-1) if width > 1 else mask.reshape(-1)
    rows = source.reshape(-1, width)
    order = (chosen.long().cumsum(0) - 1).clamp(0, rows.shape[0] - 1)
    return torch.where(mask, rows[order].reshape(x.shape), x)


class Places(tuple[Tensor, ...]):
    """Where a mask is true: one tensor an axis, as an index. An assignment goes through the mask itself."""

    mask: Tensor


def places(mask: Tensor) -> Places:
    """`torch.where(mask)`."""
    found = Places(torch.nonzero(mask, as_tuple=True))
    found.mask = mask
    return found


def stacked(index: Any) -> Any:
    """An index, each of its lists of scalar tensors one tensor: PyTorch would read their contents."""

    def together(part: Any) -> Any:
        scalars = isinstance(part, list | tuple) and part and all(isinstance(x, Tensor) and not x.dim() for x in part)
        return torch.stack(list(part)) if scalars else part

    if isinstance(index, tuple):
        return index if all(together(x) is x for x in index) else tuple(map(together, index))
    return together(index)


def set_item(x: Tensor, index: Any, value: Any) -> bool:
    """Do `x[mask] = value` and say so; False for any other index."""
    if isinstance(index, Places):
        index = index.mask
    if not isinstance(index, Tensor) or index.dtype is not torch.bool:
        return False
    mask = index.reshape(index.shape + (1,) * (x.dim() - index.dim()))
    if not isinstance(value, Tensor):
        x.copy_(torch.where(mask, torch.full((), value, dtype=x.dtype), x))
    elif value.dim() <= x.dim() - index.dim():
        x.copy_(torch.where(mask, value.to(x.dtype), x))
    else:
        x.copy_(masked_scatter(x, mask.expand(x.shape), value.to(x.dtype)))
    return True
