"""What a PyTorch module says only while it runs, and its export forgets: what is detached, where dropout is, which
functions have gradients of their own. While a module is exported, operators of the domain `pock` say it (`operators`).

Imported by `from_torch` only: it needs PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import wraps
from typing import Any
from unittest import mock

from torch import nn

from .dropout import dropout_captured
from .experts import experts_captured
from .functions import CustomFunctions, Rules
from .gradients import all_require_gradients
from .operators import named
from .rewritten import rewritten
from .tracing import Tracing

__all__ = ["CustomFunctions", "Rules", "captured", "named"]


@contextlib.contextmanager
def captured(module: nn.Module, functions: CustomFunctions) -> Iterator[None]:
    """While the block runs, the module's `forward` computes as before, and its trace has all that training needs."""
    forward = module.forward

    @wraps(forward)
    def traced(*args: Any, **kwargs: Any) -> Any:
        with Tracing():
            return forward(*args, **kwargs)

    with (
        dropout_captured(module),
        experts_captured(),
        functions.traced(),
        rewritten(),
        all_require_gradients(module),
        mock.patch.object(module, "forward", traced),
    ):
        yield
