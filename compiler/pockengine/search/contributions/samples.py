"""A dataset in memory, as batches of the compiled step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...artifact import InputInfo, Manifest
from ...errors import DataError, nearest
from ...ir import Array
from .work import Data


class Samples:
    """The samples of a dataset that a compiled step can take. Tensors that the step does not read are passed over.

    Raises DataError where an input is missing, has another shape, or where there are fewer samples than a step takes
    (unless `whole` is false: what is only evaluated comes in any number)."""

    def __init__(self, data: Data, manifest: Manifest, called: str, whole: bool = True) -> None:
        batch = int(manifest.summary["batch"])
        self.called = called
        self.step = batch * int(manifest.recipe.get("accumulate", 1))
        self._rows = {port.name: port.shape[0] // batch if port.shape else 1 for port in manifest.inputs}
        self._arrays = {
            port.name: self._checked(data, port) for port in manifest.inputs if not port.optional or port.name in data
        }
        counts = {len(array) // self._rows[name] for name, array in self._arrays.items()}
        if len(counts) != 1:
            raise DataError(f"the inputs of the {called} have different numbers of samples: {sorted(counts)}")
        self.count = counts.pop()
        if self.count < (self.step if whole else 1):
            raise DataError(f"the {called} have {self.count} samples, and one step takes {self.step}")

    def take(self, chosen: Array) -> dict[str, Array]:
        """The samples of these numbers."""
        found = {}
        for name, array in self._arrays.items():
            rows = self._rows[name]
            found[name] = array[(chosen[:, None] * rows + np.arange(rows)).reshape(-1)]
        return found

    def all(self) -> dict[str, Array]:
        """Every sample, as they are stored."""
        return dict(self._arrays)

    def batches(self, seed: int) -> Iterator[dict[str, Array]]:
        """Batches of one step without end; each epoch goes through all samples in an order of its own."""
        rng, left = np.random.default_rng(seed), np.empty(0, np.int64)
        while True:
            while len(left) < self.step:
                left = np.concatenate([left, rng.permutation(self.count)])
            chosen, left = left[: self.step], left[self.step :]
            yield self.take(chosen)

    def _checked(self, data: Data, port: InputInfo) -> Array:
        if port.name not in data:
            raise DataError(f"the {self.called} lack '{port.name}'{nearest(port.name, data)}")
        array = np.asarray(data[port.name])
        if array.ndim != max(1, len(port.shape)) or array.shape[1:] != port.shape[1:]:
            wanted, found = ", ".join(["N", *map(str, port.shape[1:])]), list(array.shape)
            raise DataError(f"'{port.name}' of the {self.called} is {found}, and the model reads [{wanted}]")
        if len(array) % self._rows[port.name]:
            raise DataError(
                f"'{port.name}' of the {self.called} has {len(array)} rows, and the model reads "
                f"{self._rows[port.name]} for each sample"
            )
        return array
