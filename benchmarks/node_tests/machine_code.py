"""Runs node tests as machine code: hundreds of cases planned each for itself and compiled together.

Every case is imported, planned and emitted as any model is, with one program, `predict`."""

from __future__ import annotations

import multiprocessing
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.shared_object import THREADS, Memory, SharedObject
from pockengine.codegen.model import Model, Tensor
from pockengine.compile import Inference, plan_inference
from pockengine.ir import DType, TensorType
from pockengine.plan import Space, aligned
from pockengine.targets import get

from .backends import Failure, Verdict, compare, imported
from .cases import Case


@dataclass(frozen=True)
class _Planned:
    """A case with its program; `symbol` names its tables."""

    case: Case
    inference: Inference
    symbol: str

    @property
    def space_bytes(self) -> dict[Space, int]:
        return {
            Space.ARENA: aligned(self.inference.program.plan.arena_bytes, self.inference.spaces.alignment),
            **self.inference.spaces.sizes,
        }

    @cached_property
    def model(self) -> Model:
        """The tables, as `compile/build.py` makes them for a model that is not trained."""
        spaces, graph = self.inference.spaces, self.inference.program.graph
        inputs = tuple(Tensor(value.name, value.type, spaces.places[Space.INPUT, value.name]) for value in graph.inputs)
        consts = tuple(
            Tensor(f"const.{index}", TensorType(DType.of(array.dtype), tuple(array.shape)), location)
            for index, (location, array) in enumerate(spaces.consts.values())
        )
        program = {"predict": self.inference.program}
        return Model(self.case.name, "host", THREADS, 1, (), (), consts, inputs, program, self.space_bytes, 0)

    def memory(self) -> Memory:
        """The memory, with constants and inputs in their places."""
        memory, spaces = Memory(self.space_bytes), self.inference.spaces
        for location, array in spaces.consts.values():
            memory.write(location, array)
        for name, array in self.case.feeds.items():
            memory.write(spaces.places[Space.INPUT, name], array)
        return memory


def run_machine_code(cases: Sequence[Case]) -> dict[str, Verdict]:
    """Every case by the C backend."""
    verdicts: dict[str, Verdict] = {}
    planned: list[_Planned] = []
    for index, case in enumerate(cases):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                planned.append(_Planned(case, plan_inference(imported(case), get("host"), THREADS), f"case_{index}"))
        except Exception as error:  # whatever goes wrong, the other cases go on; the table shows it
            verdicts[case.name] = Failure.of(error)
    with tempfile.TemporaryDirectory(prefix="node-tests-") as folder:
        library = SharedObject({one.symbol: one.model for one in planned}, Path(folder))
        ready = []
        for one in planned:
            message = library.missing(one.model)
            if message is None:
                ready.append(one)
            else:
                verdicts[one.case.name] = Failure("broken", message)
        return verdicts | _run_apart(ready, library)


def _run_apart(planned: Sequence[_Planned], library: SharedObject) -> dict[str, Verdict]:
    """Runs the programs in a process of their own; when it dies, the next goes on behind the case that killed it."""
    verdicts: dict[str, Verdict] = {}
    fork = multiprocessing.get_context("fork")
    while len(verdicts) < len(planned):
        ours, theirs = fork.Pipe(duplex=False)
        rest = planned[len(verdicts) :]
        worker = fork.Process(target=_report, args=(rest, library, theirs))
        worker.start()
        theirs.close()
        for one in rest:
            try:
                verdicts[one.case.name] = ours.recv()
            except EOFError:
                worker.join()
                verdicts[one.case.name] = Failure("broken", f"the program died (exit code {worker.exitcode})")
                break
        worker.join()
    return verdicts


def _report(planned: Sequence[_Planned], library: SharedObject, answers: Connection) -> None:
    for one in planned:
        answers.send(_run(one, library))


def _run(one: _Planned, library: SharedObject) -> Verdict:
    memory = one.memory()
    library.run(one.symbol, "predict", memory)
    if not memory.intact():
        return Failure("broken", "wrote outside its memory")
    program = one.inference.program
    found = [memory.read(program.locations[value], value.type) for value in program.outputs.values()]
    return compare(one.case, found)
