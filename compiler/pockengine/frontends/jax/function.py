"""A JAX function of parameters and inputs as one of arrays alone, with names for all of them. Imported only where JAX
is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ...errors import ModelError


class JaxFunction:
    """Called with the inputs, then the leaves of the parameters that are arrays: a tuple of arrays.

    name          for a person
    input_names   of the inputs; `inputs` are the examples
    paths         of the leaves in the tree of parameters, as names; `leaves` are their contents
    output_names  known once it has been called"""

    def __init__(self, function: Callable[..., Any], params: Any, args: Any, input_names: tuple[str, ...] = ()) -> None:
        """As `from_jax` takes them. Raises ModelError for what is no function of arrays."""
        if hasattr(function, "apply") and hasattr(function, "init"):
            raise ModelError(f"from_jax takes a function, not the module {type(function).__name__}: give its 'apply'")
        self._function = function
        self.name = _name(function)
        self.inputs: tuple[Any, ...] = args if isinstance(args, tuple) else (args,)
        count = len(self.inputs)
        self.input_names = input_names or (("input",) if count == 1 else tuple(f"input_{i}" for i in range(count)))
        self._refuse_other_inputs()
        everything, self._tree = jax.tree_util.tree_flatten_with_path(params)
        self._held = [leaf for _, leaf in everything]
        self._places = [index for index, leaf in enumerate(self._held) if is_array(leaf)]
        self.leaves = [self._held[index] for index in self._places]
        paths = [everything[index][0] for index in self._places]
        self.paths = [jax.tree_util.keystr(path, simple=True, separator=".") or "params" for path in paths]
        self.output_names: list[str] = []

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        held, count = list(self._held), len(self.inputs)
        for index, array in zip(self._places, arrays[count:], strict=True):
            held[index] = array
        weights = jax.tree_util.tree_unflatten(self._tree, held)
        results, _ = jax.tree_util.tree_flatten_with_path(self._function(weights, *arrays[:count]))
        self.output_names[:] = [
            jax.tree_util.keystr(path, simple=True, separator=".") if path else "output" for path, _ in results
        ]
        return tuple(result for _, result in results)

    def _refuse_other_inputs(self) -> None:
        if len(self.input_names) != len(self.inputs):
            raise ModelError(f"from_jax was given {len(self.inputs)} inputs and {len(self.input_names)} names for them")
        for given, array in zip(self.input_names, self.inputs, strict=True):
            if not is_array(array):
                raise ModelError(
                    f"'{given}' of from_jax is a {type(array).__name__} and not an array of numbers: give each array "
                    "as an input of its own, and compute without random keys, as inference does"
                )


def is_array(leaf: Any) -> bool:
    """Whether this is an array of numbers, and not a random key or, in an Equinox module, a function."""
    if isinstance(leaf, jax.Array):
        return not jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return isinstance(leaf, (np.ndarray, np.generic, bool, int, float))


def _name(function: Any) -> str:
    """That of a function, or of the class whose method it is."""
    owner = getattr(function, "__self__", None)
    return type(owner).__name__ if owner is not None else getattr(function, "__name__", type(function).__name__)
