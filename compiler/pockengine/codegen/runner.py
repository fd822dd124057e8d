"""The protocol between an artifact and what runs it on this machine: the half of a backend that needs no compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..ir import Array


@dataclass(frozen=True)
class Place:
    """Where something of an open model lies: addresses for the processor and for GPU number `gpu`, None where one of
    them does not reach it. `owner` keeps it there."""

    on_processor: int | None
    on_gpu: int | None
    gpu: int
    owner: object


class Placed(Protocol):
    """Contiguous numbers in the memory of the model's GPU, at an address."""

    @property
    def address(self) -> int:
        """Where the first one is."""


Given = Array | Placed
"""What one input of a batch may be."""


class OpenModel(Protocol):
    """A model in memory, with its optimizer state. Methods raise DataError or ArtifactError, each one sentence. Batches
    are arrays in the order of the manifest's inputs, of exactly the compiled types and shapes."""

    def step(self, batch: Sequence[Given]) -> float:
        """One training step on all its micro-batches; its loss, which may be NaN."""

    def predict(self, batch: Sequence[Given | None], outputs: Sequence[Array | None]) -> None:
        """Fills `outputs`; `batch` has None for targets. With outputs of None alone they stay where they are made."""

    def evaluate(self, batch: Sequence[Given], columns: Array) -> None:
        """Fills f32[4, batch]: of each sample the loss and what it counts, the share of right answers and what it
        counts (-1 and 0 where the model has no notion of right)."""

    def estimate_norms(self, batch: Sequence[Given | None], done: int) -> None:
        """Takes a batch into the running statistics of batch norms, after `done` others; it has None for targets."""

    def get(self, name: str, array: Array) -> None:
        """Copies a parameter or optimizer state into `array`."""

    def set(self, name: str, array: Array) -> None:
        """Replaces a parameter or optimizer state."""

    def input_place(self, index: int) -> Place:
        """Where an input is read from."""

    def output_place(self, index: int) -> Place:
        """Where an output of `predict` is until the next call."""

    def tensor_place(self, name: str) -> Place:
        """Where a parameter or optimizer state is, if it lies there as it is in files."""

    def save(self, path: Path) -> None:
        """Writes all parameters as safetensors."""

    def load(self, path: Path) -> None:
        """Replaces the parameters that a safetensors file holds."""

    @property
    def threads(self) -> int:
        """Threads in use."""

    def close(self) -> None:
        """Frees memory and threads, once nobody has a place in it any more; may be called twice."""


class Runner(Protocol):
    """Runs the artifacts of one backend on this machine."""

    def check(self, target: Mapping[str, Any]) -> None:
        """Raises WrongMachineError unless what was built for this target (as the manifest says it) can be opened
        here."""

    def open(self, folder: Path, library: str, threads: int) -> OpenModel:
        """The model of an artifact unpacked in `folder`, whose entry point `library` it is; `threads` 0 takes as many
        as it was built for and the machine has."""

    def launcher(self, target: Mapping[str, Any]) -> list[str]:
        """What a command line has before the entry point `executable`: nothing where the system runs it. Raises
        WrongMachineError where nothing here can."""
