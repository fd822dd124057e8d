"""What a PyTorch module says only while it runs, and its export forgets: what is detached, where dropout is, which
functions have gradients of their own. While a module is exported, operators of the domain `pock` say it (`operators`).

Imported by `from_torch` only: it needs PyTorch."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from functools import wraps
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from .contents.conditions import Conditions, warn
from .contents.decisions import Decided, Decisions
from .contents.known import Known, counts
from .contents.selections import Chosen, Selections
from .derivatives import Derivatives
from .dropout import dropout_captured
from .functions import CustomFunctions, Rules
from .gradients import all_require_gradients
from .operators import named
from .randomness import drawing_in_training
from .rewriting.experts import experts_captured
from .rewriting.rewritten import rewritten
from .rewriting.translations import registry_kept, translations
from .tracing import Tracing

__all__ = [
    "CustomFunctions",
    "Decisions",
    "Derivatives",
    "Rules",
    "Selections",
    "captured",
    "drawing_in_training",
    "named",
    "registry_kept",
    "translations",
    "warn",
]


@contextlib.contextmanager
def captured(
    module: nn.Module,
    functions: CustomFunctions,
    selections: Selections,
    decisions: Decisions,
    fixed: Mapping[str, Any],
) -> Iterator[None]:
    """While the block runs, the module's `forward` computes as before, and its trace has all that training needs.

    fixed  arguments of `forward` that the caller of the trace does not give: constants of the model"""
    forward = module.forward

    @wraps(forward)
    def traced(*args: Any, **kwargs: Any) -> Any:
        given = [x for x in pytree.tree_leaves(dict(fixed)) if isinstance(x, Tensor)]
        conditions = Conditions(decisions.settled)
        chosen, decided = Chosen(selections.counts, conditions), Decided(decisions.answers, conditions)
        with Tracing(module, Known([*given, *numbers]), chosen, decided):
            result = forward(*args, **kwargs, **fixed)
        return conditions.guarded(pytree.tree_map(_tensor, result))

    if fixed:
        signature = inspect.signature(forward)
        left = [parameter for name, parameter in signature.parameters.items() if name not in fixed]
        traced.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    with (
        counts(module) as numbers,
        dropout_captured(module),
        experts_captured(module),
        functions.traced(),
        rewritten(),
        all_require_gradients(module),
        mock.patch.object(module, "forward", traced),
        mock.patch.object(torch, "_check_tensor_all_with", _checked),
    ):
        yield


def _tensor(x: Any) -> Any:
    """Nothing in place of a number, a size or a text among what a module returns: no program has them as outputs."""
    return None if isinstance(x, bool | int | float | str | torch.Size) else x


def _checked(error_type: type[Exception], cond: Tensor, message: Any = None) -> None:
    """A check of data, which held where the module ran and which no program of ours repeats."""
