"""What a peer gets of a workload: batch, weights, and the names of what it trains. Imports no framework."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from benchmarks.peers.environments import CACHE
from benchmarks.workloads import Array, Feed, Workload, workload_named


@dataclass(frozen=True)
class Case:
    """A workload with the files that `prepare` wrote for it."""

    workload: Workload

    @staticmethod
    def named(name: str) -> Case:
        return Case(workload_named(name))

    @property
    def folder(self) -> Path:
        what = (sorted(self.workload.model.config.items()), self.workload.batch, self.workload.update)
        return CACHE / "cases" / f"{self.workload.training}-{_digest(what)}"

    @property
    def weights_file(self) -> Path:
        what = sorted(self.workload.model.config.items())
        return CACHE / "weights" / f"{self.workload.family}-{_digest(what)}.safetensors"

    @property
    def onnx_file(self) -> Path:
        return self.folder / "model.onnx"

    @property
    def trained_file(self) -> Path:
        return self.folder / "trained.json"

    def weights(self) -> dict[str, Array]:
        """Parameters and running statistics, named and laid out as PyTorch does."""
        return {name: np.asarray(array) for name, array in load_file(self.weights_file).items()}

    def feed(self) -> Feed:
        """Inputs and labels; images are NCHW."""
        return self.workload.feed()

    @cached_property
    def trained(self) -> dict[str, Any]:
        """Trained parameter -> None for all of it, or {axis, indices} of its trained channels."""
        return dict(json.loads(self.trained_file.read_text()))

    def masks(self, weights: dict[str, Array]) -> dict[str, Array]:
        """For each parameter of which some channels are trained, 1 where it is and 0 elsewhere."""
        result = {}
        for name, channels in self.trained.items():
            if channels is not None:
                mask = np.zeros_like(weights[name])
                np.moveaxis(mask, channels["axis"], 0)[channels["indices"]] = 1
                result[name] = mask
        return result


def _digest(what: object) -> str:
    """So that files of an earlier definition are not taken for those of this one."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:8]
