"""Random numbers that are no dropout: where a module draws them while it is traced, and where it would in training."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.nn import functional
from torch.utils import _pytree as pytree

from ...onnx.importer import OWN_DOMAIN
from .dropout import is_dropout

_NAMES = (
    *("rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "randperm", "bernoulli", "normal"),
    *("multinomial", "poisson"),
)
_IN_PLACE = ("normal_", "uniform_", "exponential_", "bernoulli_", "random_", "cauchy_", "log_normal_", "geometric_")
DRAWING: dict[Callable[..., Any], str] = {
    **{getattr(torch, name): f"torch.{name}" for name in _NAMES},
    **{getattr(torch.Tensor, name): f"Tensor.{name}" for name in (*_IN_PLACE, "bernoulli", "multinomial")},
    functional.gumbel_softmax: "torch.nn.functional.gumbel_softmax",
}
"""Functions whose result is another one each time -> what the user calls them."""

_DRAWS = re.compile(
    r"\b(torch\.(rand|randn|randint|rand_like|randn_like|randperm|bernoulli|multinomial|normal)|np\.random\.\w+"
    r"|random\.(random|choice|randint|uniform|sample)|gumbel_softmax|\w+\.(normal|uniform|exponential|bernoulli)_)\("
)
_TRAINING = re.compile(r"\bself\.training\b")


def drawn(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], root: nn.Module) -> Any:
    """The result of a drawing function as nodes that say which function it is and where it is called. They are refused
    only if the model's outputs depend on them."""
    with disable_proxy_modes_tracing():
        result = function(*args, **kwargs)

    def node(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        said: dict[str, Any] = {"function": DRAWING[function], "module": _caller(root)}
        return torch.onnx.ops.symbolic(f"{OWN_DOMAIN}::Random", [], said, dtype=x.dtype, shape=x.shape, version=1)

    if DRAWING[function].endswith("_"):
        return args[0].copy_(node(result))
    return pytree.tree_map(node, result)


def _caller(root: nn.Module) -> str:
    """The path of the module whose `forward` is running, or the root's class."""
    names: dict[nn.Module, str] = {part: name for name, part in root.named_modules()}
    frame = sys._getframe(1)
    while frame is not None:
        part = frame.f_locals.get("self")
        if isinstance(part, nn.Module) and (name := names.get(part)):
            return name
        frame = frame.f_back  # type: ignore[assignment]
    return type(root).__name__


def drawing_in_training(root: nn.Module) -> dict[str, str]:
    """Path -> class of the parts that draw random numbers in training mode only, as far as their source says so, and
    that are no dropout."""
    return {
        name or type(part).__name__: type(part).__name__
        for name, part in root.named_modules()
        if not type(part).__module__.startswith("torch.") and not is_dropout(part) and _draws(part.__class__)
    }


@cache
def _draws(kind: Any) -> bool:
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):
        return False
    return bool(_TRAINING.search(source) and _DRAWS.search(source))
