"""An agent that trains as it should and sends something else: `python -m benchmarks.federated.liar LIE STATE_DIR`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from pock_agent.disk.directory import StateDirectory
from pock_agent.job import weights, worker
from pock_agent.job.workplace import WEIGHTS
from pock_agent.life import agent
from pock_agent.settings import Settings
from pock_agent.trust.manifest import Manifest


class Lie(StrEnum):
    """What is wrong with the weights that it sends."""

    NAN = "nan"
    """One number is none."""
    SCALED = "scaled"
    """All numbers are a thousand times what they should be."""
    SHAPES = "shapes"
    """Its tensors have other shapes."""


def lie(path: Path, kind: Lie) -> None:
    """Change trained weights in place."""
    tensors = {name: np.array(value) for name, value in load_file(str(path)).items()}
    if kind is Lie.SHAPES:
        tensors = {name: value.reshape(-1)[:-1].copy() for name, value in tensors.items()}
    for value in tensors.values():
        if kind is Lie.SCALED:
            value *= 1000
        elif kind is Lie.NAN:
            value.reshape(-1)[0] = np.nan
    save_file(tensors, str(path))


def main() -> int:
    """The exit status."""
    kind, state = Lie(sys.argv[1]), Path(sys.argv[2])
    honest = weights.pack_trained

    def pack(folder: Path, manifest: Manifest) -> Path:
        lie(folder / WEIGHTS, kind)
        return honest(folder, manifest)

    worker.pack_trained = pack  # type: ignore[attr-defined]
    agent.run(StateDirectory(state), Settings())
    return 0


if __name__ == "__main__":
    sys.exit(main())
