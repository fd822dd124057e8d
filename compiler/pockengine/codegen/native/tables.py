"""Prints model.c: the tables of `pock.h` that say what a model's tensors are, where they live and which kernels run."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence

from ...ir import TensorType, Value
from ...plan.program import Location, Loops, Program, Step, Tasks
from ...plan.space import BLOCKS, Space
from ..common.lines import Lines
from ..model import Model, StreamedRows, Tensor

MOST_LOOPS = 3
"""Of an axis of packed weights: what the runtime counts with."""
PROGRAMS = ("train", "eval", "predict", "accumulate", "norms", "generate")
_PLAIN = frozenset(string.ascii_letters + string.digits + " !#$%&'()*+,-./:;<=>@[]^_`{|}~")


def emit_model(model: Model) -> str:
    """The text of model.c."""
    code = Lines()
    code.line(f"/* The model {_comment(model.name)} for {_comment(model.target)}: tensors and kernel calls. */")
    code.line('#include "pock.h"')
    code.line()
    symbols = {
        call.kernel.symbol
        for program in model.programs.values()
        for step in program.steps
        for call in step.lowered.calls
    }
    for symbol in sorted(symbols):
        code.line(f"void {symbol}(void *const *arg, int task, int tasks);")
    groups = {"params": model.params, "states": model.states, "consts": model.consts, "inputs": model.inputs}
    for group, tensors in groups.items():
        _tensors(code, group, tensors)
    if model.generation is not None:
        _tensors(code, "generate_inputs", (model.generation.token, model.generation.position))
    _streamed(code, model.streamed)
    for name in PROGRAMS:
        if name in model.programs:
            emit_program(code, name, model.programs[name])
    _model(code, model, groups)
    return code.text()


def _model(code: Lines, model: Model, groups: Mapping[str, Sequence[Tensor]]) -> None:
    code.line()
    code.line("const pock_model pock_model_data = {")
    code.line(f"    .name = {_string(model.name)},")
    code.line(f"    .target = {_string(model.target)},")
    code.line(f"    .threads = {model.threads},")
    code.line(f"    .batch = {model.batch},")
    code.line(f"    .accumulate_steps = {model.accumulate_steps},")
    code.line(f"    .last_batch = POCK_{model.last_batch.upper()},")
    code.line(f"    .perplexity = {int(model.perplexity)},")
    sizes = ", ".join(str(model.space_bytes.get(space, 0)) for space in BLOCKS)
    code.line(f"    .space_bytes = {{{sizes}}}, /* {', '.join(BLOCKS)} */")
    code.line(f"    .alignment = {model.alignment},")
    code.line(f"    .predicted_peak_bytes = {model.predicted_peak_bytes},")
    for group, tensors in groups.items():
        code.line(f"    .{group} = {group if tensors else '0'},")
        code.line(f"    .{group[:-1]}_count = {len(tensors)},")
    if model.streamed:
        code.line(f"    .streamed = streamed, .streamed_count = {len(model.streamed)},")
    if model.norm_batches:
        code.line(f"    .norm_batches = {model.norm_batches},")
    if model.generation is not None:
        code.line("    .generate_inputs = generate_inputs,")
    for name in PROGRAMS:
        code.line(f"    .{name} = {f'&{name}_program' if name in model.programs else '0'},")
    code.line("};")


def _tensors(code: Lines, name: str, tensors: Sequence[Tensor]) -> None:
    """One table of tensors, preceded by their shapes."""
    if not tensors:
        return
    code.line()
    _shapes(code, name, (tensor.type for tensor in tensors))
    _packings(code, name, tensors)
    code.line(f"static const pock_tensor {name}[] = {{")
    for index, tensor in enumerate(tensors):
        code.line(f"    {_row(name, index, tensor)}, /* {tensor.type} */")
    code.line("};")


def _streamed(code: Lines, streamed: Sequence[StreamedRows]) -> None:
    if not streamed:
        return
    code.line()
    code.line("static const pock_streamed streamed[] = {")
    for one in streamed:
        kind = f"POCK_{one.type.dtype.value.upper()}"
        fields = [f"&params[{one.table}]", _ref(one.indices), kind, one.type.size, _ref(one.rows)]
        code.line(f"    {{{', '.join(map(str, fields))}}},")
    code.line("};")


def _shapes(code: Lines, name: str, types: Iterable[TensorType]) -> None:
    for index, type in enumerate(types):
        if type.rank:
            code.line(f"static const int64_t {name}_shape_{index}[] = {{{', '.join(map(str, type.shape))}}};")


def _packings(code: Lines, name: str, tensors: Sequence[Tensor]) -> None:
    for index, tensor in enumerate(tensors):
        if tensor.packing is not None:
            p = tensor.packing
            axes = ", ".join(_axis_loops(loops) for loops in (p.b, p.n, p.k))
            code.line(f"static const pock_packing {name}_packing_{index} = {{{p.columns}, {axes}}};")


def _axis_loops(loops: Loops) -> str:
    """The loops of an axis, MOST_LOOPS of them."""
    filled = [(1, 0)] * (MOST_LOOPS - len(loops)) + list(loops)
    return "{" + ", ".join(f"{{{extent}, {stride}}}" for extent, stride in filled) + "}"


def _row(table: str, index: int, tensor: Tensor) -> str:
    shape = f"{table}_shape_{index}" if tensor.type.rank else "0"
    kind = f"POCK_{tensor.type.dtype.value.upper()}"
    fill = f"{float(tensor.fill)!r}f"
    fields = [_string(tensor.name), kind, tensor.type.rank, int(tensor.trained), fill, shape, tensor.type.nbytes]
    average_of = "0" if tensor.average_of is None else f"&params[{tensor.average_of}]"
    packing = "0" if tensor.packing is None else f"&{table}_packing_{index}"
    rest = [_ref(tensor.location), tensor.limit, average_of, tensor.ignored, f"POCK_{tensor.target.upper()}", packing]
    rest.append("0" if tensor.rounded is None else f"POCK_{tensor.rounded.value.upper()}")
    return "{" + ", ".join(map(str, [*fields, *rest])) + "}"


def _ref(location: Location) -> str:
    return f"{{POCK_{location.space.upper()}, {location.offset}}}"


def emit_program(code: Lines, name: str, program: Program) -> None:
    """The calls of one entry point, the places of their operands, and its outputs."""
    rows: list[str] = []
    refs: list[str] = []
    for index, step in enumerate(program.steps):
        title = step.node.origin or step.node.outputs[0].name
        for call in step.lowered.calls:
            places = [(program.locations[value], value.type) for value in call.operands]
            lines = [f"{_ref(location)}, /* {type} */" for location, type in places]
            for at in call.workspace:
                lines.append(
                    f"{_ref(_workspace(step, at))}, /* of {step.lowered.workspace_bytes} bytes of workspace */"
                )
            symbol = call.kernel.symbol
            parallel = call.launch == Tasks(parallel=True)
            fields = [symbol, _string(title), _string(symbol), len(refs), len(lines), index, int(parallel)]
            numbers = [*fields, float(call.flops), float(call.bytes)]
            rows.append(f"{{{', '.join(map(str, numbers))}}}, /* {_shape_list(step.node.outputs)} */")
            refs += lines
    code.line()
    code.line(f"static const pock_ref {name}_refs[] = {{")
    code.lines(f"    {line}" for line in refs or ["{0, 0},"])
    code.line("};")
    code.line()
    code.line(f"static const pock_call {name}_calls[] = {{")
    code.lines(f"    {row}" for row in rows or ["{0},"])
    code.line("};")
    outputs = [Tensor(key, value.type, program.locations[value]) for key, value in program.outputs.items()]
    _tensors(code, f"{name}_outputs", outputs)
    table = f"{name}_outputs" if outputs else "0"
    code.line()
    code.line(f"static const pock_program {name}_program = {{")
    fields = [_string(name), f"{name}_calls", len(rows), f"{name}_refs", table, len(outputs), program.plan.arena_bytes]
    code.line(f"    {', '.join(map(str, fields))},")
    code.line("};")


def _workspace(step: Step, at: int) -> Location:
    assert step.workspace is not None, f"{step.node.op} needs a workspace and got none"
    return Location(Space.ARENA, step.workspace + at)


def _shape_list(values: Iterable[Value]) -> str:
    return ", ".join(str(value.type) for value in values)


def _string(text: str) -> str:
    """A C string literal; what is not a plain character becomes octal UTF-8 bytes."""
    return '"' + "".join(c if c in _PLAIN else "".join(f"\\{byte:03o}" for byte in c.encode()) for c in text) + '"'


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("\n", " ")


def kernel_sources(programs: Iterable[Program]) -> dict[str, str]:
    """Symbol -> source of every kernel the programs call."""
    calls = (call for program in programs for step in program.steps for call in step.lowered.calls)
    return {call.kernel.symbol: call.kernel.source for call in calls}
