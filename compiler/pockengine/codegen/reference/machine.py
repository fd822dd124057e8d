"""A model of the reference backend in memory: it runs programs step by step, each by its op's numpy function.

Every operand is read from its planned place and every result written to its own, so a fault of the plan shows as a
wrong number, as it would on a device. Implements `codegen.runner.OpenModel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from ...errors import ArtifactError, DataError, nearest
from ...interp import run_node
from ...ir import Array
from ...plan.program import Location
from .. import runner
from ..files import write_whole
from ..model import IN_FILE, Tensor
from ..runner import Given
from . import values
from .memory import Memory
from .reading import Place, Script, Scripted, Step
from .tensor_files import read_tensors


class Machine:
    """One open model. Blocks of memory are numpy arrays; tables that a device leaves in the weights file are held."""

    threads = 1

    def __init__(self, scripted: Scripted, params: Path, consts: Path | None) -> None:
        """Reads the weights files. Raises ArtifactError."""
        self.model, self.scripts = scripted.model, scripted.scripts
        self._memory = Memory(self.model.space_bytes)
        self._tables: dict[str, Array] = {}
        stored = read_tensors(params)
        for tensor in self.model.params:
            self._fill(tensor, stored, params)
        held = read_tensors(consts) if consts is not None else {}
        for tensor in self.model.consts:
            self._fill(tensor, held, consts or params)
        for state in self.model.states:
            first = np.full(state.type.shape, state.fill, state.type.dtype.numpy)
            average = None if state.average_of is None else self.read(self.model.params[state.average_of])
            self.write(state, first if average is None else average.astype(state.type.dtype.numpy))
        self._open = True

    def read(self, tensor: Tensor) -> Array:
        """What a tensor holds."""
        if tensor.location == IN_FILE:
            return self._tables[tensor.name]
        return self._memory.read(tensor.location, tensor.type)

    def write(self, tensor: Tensor, array: Array) -> None:
        """Replace what a tensor of a block holds."""
        self._memory.write(tensor.location, tensor.type, array)

    def run(self, program: str, batch: Sequence[Array | None]) -> dict[str, Array]:
        """Copies of a program's outputs on one micro-batch; inputs that are None keep what they hold. Raises DataError
        where this model was compiled without it, ArtifactError where a step cannot be computed."""
        script = self._script(program)
        values.check_count(self.model, batch)
        for tensor, array in zip(self.model.inputs, batch, strict=True):
            if array is not None:
                self.write(tensor, array)
        for one in self.model.streamed:
            table = self.read(self.model.params[one.table])
            indices = self._memory.read(one.indices, one.type).reshape(-1)
            rows = np.clip(np.where(indices < 0, indices + len(table), indices), 0, len(table) - 1)
            type = self.model.params[one.table].type.with_shape((rows.size, *table.shape[1:]))
            self._memory.write(one.rows, type, table[rows])
        with np.errstate(all="ignore"):
            for index, step in enumerate(script.steps):
                self._compute(f"step {index} of {program}", step)
        return self._outputs(script)

    def step(self, given: Sequence[Given]) -> float:
        """See OpenModel."""
        batch = _arrays(given)
        values.check_count(self.model, batch)
        count = self.model.accumulate_steps if "accumulate" in self.scripts else 1
        pieces = [self._micro_batch(batch, index) for index in range(count)]
        for index, piece in enumerate(pieces):
            values.check_batch(self.model, piece, "the batch", index * self.model.batch)
        losses = [
            float(self.run("accumulate" if index + 1 < count else "train", piece).get("loss", np.float32("nan")))
            for index, piece in enumerate(pieces)
        ]
        return float(np.float32(sum(losses) / count))

    def predict(self, given: Sequence[Given | None], outputs: Sequence[Array | None]) -> None:
        """See OpenModel."""
        batch = _arrays(given)
        values.check_batch(self.model, batch, "the batch", 0)
        found = list(self.run("predict", batch).values())
        if len(found) != len(outputs):
            raise DataError(f"the program has {len(found)} outputs, not {len(outputs)}")
        for output, array in zip(outputs, found, strict=True):
            if output is not None and output.shape != array.shape:
                raise DataError("the outputs are not of the shapes that the program has")
            if output is not None:
                output[...] = array

    def evaluate(self, given: Sequence[Given], columns: Array) -> None:
        """See OpenModel."""
        batch = _arrays(given)
        values.check_batch(self.model, batch, "the batch", 0)
        found = self.run("eval", batch)
        judges = float("correct" in found)
        usual = {"sample_loss": np.nan, "loss_weight": 1.0, "correct": -1.0, "counted": judges}
        for column, (name, otherwise) in zip(columns, usual.items(), strict=True):
            column[:] = found.get(name, otherwise)

    def estimate_norms(self, given: Sequence[Given | None], done: int) -> None:
        """See OpenModel."""
        batch = _arrays(given)
        values.check_batch(self.model, batch, "the batch", 0)
        for name, found in self.run("norms", batch).items():
            param = self._named(name)
            running = self.read(param)
            if found.shape != running.shape or found.dtype != running.dtype:
                raise ArtifactError(f"'{name}' is no running statistic of this model")
            self.write(param, running + (found - running) / np.float32(done + 1) if done else found)

    def get(self, name: str, array: Array) -> None:
        """See OpenModel."""
        array[...] = self.read(self._named(name))

    def set(self, name: str, array: Array) -> None:
        """See OpenModel."""
        self.replace(self._named(name), array)

    def input_place(self, index: int) -> runner.Place:
        """See OpenModel."""
        return self._memory.place(self.model.inputs[index].location)

    def output_place(self, index: int) -> runner.Place:
        """See OpenModel."""
        place = list(self._script("predict").outputs.values())[index]
        return self._memory.place(Location(place.space, place.offset))

    def tensor_place(self, name: str) -> runner.Place:
        """See OpenModel."""
        tensor = self._named(name)
        if tensor.location == IN_FILE:
            raise DataError(f"'{name}' does not lie in memory as it is in files: copy it")
        return self._memory.place(tensor.location)

    def replace(self, tensor: Tensor, array: Array) -> None:
        """Replace a parameter or state, and a parameter's moving average. Raises DataError where constants were derived
        from its old contents."""
        self.may_replace(tensor, array)
        if tensor.location != IN_FILE:
            self.write(tensor, array)
        for state in self.model.states:
            if state.average_of is not None and self.model.params[state.average_of] is tensor:
                self.write(state, np.asarray(array).astype(state.type.dtype.numpy))

    def may_replace(self, tensor: Tensor, array: Array) -> None:
        """Raises DataError where a tensor takes no other contents than those compiled in."""
        free = tensor.trained or (not self.model.consts and tensor.location != IN_FILE)
        if not free and np.asarray(array).tobytes() != self.read(tensor).tobytes():
            raise DataError(
                f"frozen parameter '{tensor.name}' differs from the one compiled in; compile the model again with "
                "these weights"
            )

    def save(self, path: Path, only_trained: bool = False) -> None:
        """Writes all parameters, or those that training changes, as safetensors; moving averages in their place."""
        averages = {state.average_of: state for state in self.model.states if state.average_of is not None}
        wanted = {
            tensor.name: self.read(averages.get(index, tensor)).astype(tensor.type.dtype.numpy)
            for index, tensor in enumerate(self.model.params)
            if tensor.trained or not only_trained
        }
        write_whole(path, [save(wanted, {"format": "pt"})])

    def load(self, path: Path) -> None:
        """See OpenModel; a file that is refused changes nothing."""
        stored = read_tensors(path)
        if not stored:
            raise DataError(f"{path} holds no tensor")
        known = {tensor.name: tensor for tensor in self.model.params}
        for name, array in stored.items():
            if name not in known:
                raise DataError(f"{path} holds '{name}', which is not a parameter of this model{nearest(name, known)}")
            values.check_type(known[name], array, str(path))
            self.may_replace(known[name], array)
        for name, array in stored.items():
            self.replace(known[name], array)

    def close(self) -> None:
        """See OpenModel."""
        self._open = False
        self._memory, self._tables = Memory({}), {}

    def _script(self, program: str) -> Script:
        if not self._open:
            raise ArtifactError("this session is closed; load the artifact again")
        if program not in self.scripts:
            raise DataError(f"this model was compiled without the program '{program}'")
        return self.scripts[program]

    def _compute(self, where: str, step: Step) -> None:
        operands = [self._at(place) for place in step.reads]
        named = f"{where}, {step.node.op} of '{step.node.origin}',"
        try:
            results = run_node(step.node, operands)
        except Exception as error:  # attributes that no rule checks
            raise ArtifactError(f"{named} cannot be computed: {error}") from None
        for place, result in zip(step.writes, results, strict=True):
            if np.shape(result) != place.type.shape:
                raise ArtifactError(f"{named} gives another shape than it states")
            self._memory.write(Location(place.space, place.offset), place.type, np.asarray(result))

    def _at(self, place: Place) -> Array:
        return self._memory.read(Location(place.space, place.offset), place.type)

    def _outputs(self, script: Script) -> dict[str, Array]:
        return {name: self._at(place) for name, place in script.outputs.items()}

    def _micro_batch(self, batch: Sequence[Array], index: int) -> list[Array]:
        rows = (tensor.type.shape[0] if tensor.type.rank else 1 for tensor in self.model.inputs)
        return [array[index * n : (index + 1) * n] for array, n in zip(batch, rows, strict=True)]

    def _named(self, name: str) -> Tensor:
        tensors = {tensor.name: tensor for tensor in (*self.model.states, *self.model.params)}
        if name not in tensors:
            raise DataError(f"the model has no tensor '{name}'{nearest(name, tensors)}")
        return tensors[name]

    def _fill(self, tensor: Tensor, stored: dict[str, Array], path: Path) -> None:
        """Take a tensor's first contents from a file's tensors."""
        if tensor.name not in stored:
            raise ArtifactError(f"{path.name} lacks '{tensor.name}'{nearest(tensor.name, stored)}")
        array = stored[tensor.name]
        values.check_type(tensor, array, path.name)
        if tensor.location == IN_FILE:
            self._tables[tensor.name] = array
        else:
            self.write(tensor, array)


def _arrays(batch: Sequence[Given | None]) -> list[Any]:
    """A batch whose parts are all in this process's memory."""
    return [None if part is None else np.asarray(part) for part in batch]
