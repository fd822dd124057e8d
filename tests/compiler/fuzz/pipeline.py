"""Cases through the whole pipeline: planned, then run on simulated memory or as machine code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.shared_object import THREADS, Memory, SharedObject
from pockengine.compile import Planned, Request, plan_programs, space_bytes
from pockengine.compile.build import describe
from pockengine.errors import PockError
from pockengine.ir import Array, Graph, Value, parse, render
from pockengine.plan.program import Location, Loops, Packing
from pockengine.plan.space import Space
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.plan.simulation import TrainingMemory, simulate

from .cases import Case
from .reference import Expected, Results, schedule

TARGETS = ("host", "raspberry-pi-4")


@dataclass(frozen=True)
class Prepared:
    """A case with its plan; `refusal` is the error's sentence where recipe and model do not fit."""

    case: Case
    planned: Planned | None = None
    refusal: str = ""


def prepare(case: Case, target: str = "host") -> Prepared:
    """Plan a case for two threads. Only errors of the compiler's own are refusals."""
    try:
        recipe = Recipe.from_mapping(case.recipe)
        return Prepared(case, plan_programs(Request(case.model, recipe, get(target), threads=THREADS)))
    except PockError as error:
        assert one_sentence(error), f"not a sentence: {error!r}"
        return Prepared(case, refusal=str(error))


def one_sentence(error: PockError) -> bool:
    """Whether the message is one line of readable length, and no trace of the interpreter's."""
    text = str(error)
    return (
        bool(text) and "\n" not in text and len(text) < 1500 and "Traceback" not in text and "object at 0x" not in text
    )


def check_text(planned: Planned) -> None:
    """Model and programs as text, read and written again."""
    for graph in (planned.model, *(program.graph for program in planned.programs.values())):
        text = render(graph)
        assert render(parse(text)) == text, graph.name


def check_places(planned: Planned) -> None:
    """Every operand lies within its block and on a boundary of 64 bytes."""
    sizes = space_bytes(planned)
    for program in planned.programs.values():
        for value, place in program.locations.items():
            assert place.offset % 64 == 0, value
            assert place.offset + value.type.nbytes <= sizes[place.space], value


Run = Callable[[str, Mapping[str, Array]], dict[str, Array]]
"""(program, batch) -> outputs."""
Read = Callable[[Location, Value], Array]


def in_memory(one: Prepared) -> Results:
    """The case on simulated memory."""
    planned = _planned(one)
    memory = TrainingMemory(planned)

    def run(program: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
        for name, array in arrays.items():
            memory.write(planned.spaces.places[Space.INPUT, name], array)
        return simulate(planned.programs[program], memory)

    with np.errstate(all="ignore"):
        return _results(one, run, memory.read)


def in_machine_code(prepared: Sequence[Prepared], folder: Path) -> Iterator[tuple[Prepared, Results | str]]:
    """The cases that have a plan compiled together and run; a text where the C compiler refuses one, or where it writes
    outside its memory."""
    models = {f"model_{index}": describe(_planned(one)) for index, one in enumerate(prepared) if one.planned}
    library = SharedObject(models, folder)
    for symbol, model in models.items():
        one = prepared[int(symbol.removeprefix("model_"))]
        missing = library.missing(model)
        yield one, missing or _executed(one, library, symbol)


def _executed(one: Prepared, library: SharedObject, symbol: str) -> Results | str:
    planned = _planned(one)
    memory, places = Memory(space_bytes(planned)), planned.spaces.places
    for location, array in planned.spaces.consts.values():
        memory.write(location, array)
    packed = {places[Space.PARAM, name]: panels(packing) for name, packing in planned.packed.items()}
    for value in planned.model.params:
        if (Space.PARAM, value.name) in places:
            place, array = places[Space.PARAM, value.name], planned.model.data[value.name]
            memory.write(place, array.reshape(-1)[packed[place]] if place in packed else array)
    library.init_states(symbol, memory)

    def run(program: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
        for name, array in arrays.items():
            memory.write(places[Space.INPUT, name], array)
        library.run(symbol, program, memory)
        planned_program = planned.programs[program]
        return {
            name: memory.read(planned_program.locations[value], value.type)
            for name, value in planned_program.outputs.items()
        }

    def read(place: Location, value: Value) -> Array:
        array = memory.read(place, value.type)
        return array.reshape(-1)[np.argsort(packed[place])].reshape(array.shape) if place in packed else array

    results = _results(one, run, read)
    return results if memory.intact() else "wrote outside its memory"


def panels(packing: Packing) -> Array:
    """Where the original has each element of a packed weight, in the order they lie in memory."""
    b, n, k = (_offsets(loops) for loops in (packing.b, packing.n, packing.k))
    starts = range(0, len(n), packing.columns)
    return np.concatenate(
        [(base + k[:, None] + n[start : start + packing.columns]).reshape(-1) for base in b for start in starts]
    )


def _offsets(loops: Loops) -> Array:
    offsets = np.zeros(1, np.int64)
    for extent, stride in loops:
        offsets = (offsets[:, None] + np.arange(extent) * stride).reshape(-1)
    return offsets


def _results(one: Prepared, run: Run, read: Read) -> Results:
    planned, results = _planned(one), Results()
    for number, (program, arrays) in enumerate(schedule(one.case, planned.recipe.accumulate, planned.inputs)):
        results |= {f"{program} {number}: {name}": array for name, array in run(program, arrays).items()}
    train: Graph = planned.programs["train"].graph
    for space, values in ((Space.PARAM, planned.model.params), (Space.STATE, tuple(train.states))):
        for value in values:
            if (space, value.name) in planned.spaces.places:
                results[f"after: {value.name}"] = read(planned.spaces.places[space, value.name], value)
    return results


def _planned(one: Prepared) -> Planned:
    assert one.planned is not None
    return one.planned


@dataclass
class Tally:
    """What became of many cases."""

    agreed: int = 0
    refused: int = 0
    numbers: int = 0
    unsure: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, one: Prepared, found: Results | str) -> list[str]:
        """Compare a case's results with the reference; the differences."""
        if isinstance(found, str):
            differences = [found]
        else:
            expected = Expected.of(one.case, _planned(one).recipe)
            differences, numbers, unsure = expected.compare(found)
            self.numbers += numbers
            self.unsure += unsure
        self.agreed += not differences
        if differences:
            self.differences.append(describe_case(one.case, differences))
        return differences


def describe_case(case: Case, differences: Sequence[str]) -> str:
    """A failing case in full: its model as text, its recipe, and where it differs."""
    return "\n".join([*differences[:6], f"recipe: {case.recipe}", f"seed: {case.seed}", render(case.model)])


@contextmanager
def explained(case: Case) -> Iterator[None]:
    """Adds the case to an error that is not one of the compiler's own."""
    try:
        yield
    except Exception as error:
        error.add_note(describe_case(case, []))
        raise
