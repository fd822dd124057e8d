"""Damage to ONNX files: of their bytes, and of what they say."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random

import numpy as np
import onnx
from onnx import helper, numpy_helper

from . import seeds

LARGE = (0, 1, -1, 2, 3, 7, -2, 100, 2**16, 2**31 - 1, 2**31, 10**9, 2**40, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-30, 1e30, 3e38, math.nan, math.inf, -math.inf, 0.5, 1e9)
NAMES = ("", " ", "x", "y", "ä", "a\nb", "../../etc", "a" * 300, "\0", "%s", "fc.weight", "'", '"', "*/")
OPERATORS = ("Relu", "Identity", "Add", "Loop", "If", "Resize", "Reshape", "NonZero", "Conv", "Softmax", "Nonsense")
Mutation = Callable[[onnx.ModelProto, Random], None]


def mutants(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """(what was done, the file). The first of each model is whole."""
    models = {name: make().SerializeToString() for name, make in seeds.MODELS.items()}
    for name, content in models.items():
        yield name, content
    names = sorted(models)
    for number in range(len(models), count):
        random = Random(f"{seed} {number}")
        name = names[number % len(names)]
        yield mutated(name, models[name], random)


def mutated(name: str, content: bytes, random: Random) -> tuple[str, bytes]:
    """One model with one to three things wrong with it."""
    if random.random() < 0.25:
        return f"{name}: bytes", _bytes(content, random)
    proto = onnx.load_from_string(content)
    done = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        mutation = random.choice(STRUCTURAL)
        try:
            mutation(proto, random)
        except (LookupError, TypeError, ValueError):  # nothing there to change, or protobuf itself refuses
            continue
        done.append(mutation.__name__)
    content = proto.SerializeToString()
    if random.random() < 0.05:
        return f"{name}: {done} and bytes", _bytes(content, random)
    return f"{name}: {done}", content


def _bytes(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8))):
        place = random.randrange(len(changed))
        kind = random.randrange(5)
        if kind == 0:
            changed[place] ^= 1 << random.randrange(8)
        elif kind == 1:
            changed[place] = random.randrange(256)
        elif kind == 2:
            del changed[place : place + random.choice((1, 2, 16, 1000))]
        elif kind == 3:
            part = changed[place : place + random.choice((1, 4, 40, 400))]
            changed[place:place] = part
        else:
            changed[place:place] = random.randbytes(random.choice((1, 3, 9)))
        if not changed:
            return b"\0"
    return bytes(changed)


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and those inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)


def _graph(proto: onnx.ModelProto, random: Random) -> onnx.GraphProto:
    return random.choice(list(graphs(proto.graph)))


def _node(proto: onnx.ModelProto, random: Random) -> onnx.NodeProto:
    return random.choice(_graph(proto, random).node)


def change_attribute(proto: onnx.ModelProto, random: Random) -> None:
    nodes = [node for graph in graphs(proto.graph) for node in graph.node if node.attribute]
    attribute = random.choice(random.choice(nodes).attribute)
    kind = attribute.type
    if kind == onnx.AttributeProto.INT:
        attribute.i = random.choice(LARGE)
    elif kind == onnx.AttributeProto.FLOAT:
        attribute.f = random.choice(FLOATS)
    elif kind == onnx.AttributeProto.INTS and attribute.ints:
        attribute.ints[random.randrange(len(attribute.ints))] = random.choice(LARGE)
    elif kind == onnx.AttributeProto.STRING:
        attribute.s = random.choice((b"", b"linear", b"cubic", b"\xff\xfe", b"SAME_LOWER", b"bi,bi->b", b"i", b"..."))
    else:
        attribute.type = random.choice(range(15))


def retype_attribute(proto: onnx.ModelProto, random: Random) -> None:
    nodes = [node for graph in graphs(proto.graph) for node in graph.node if node.attribute]
    attribute = random.choice(random.choice(nodes).attribute)
    value = random.choice(
        (1, 0.5, "text", [1, 2], [0.5], ["a", "b"], [], numpy_helper.from_array(np.ones(2, np.float32)))
    )
    attribute.CopyFrom(helper.make_attribute(attribute.name, value, attr_type=None if value != [] else 7))


def shorten_attribute(proto: onnx.ModelProto, random: Random) -> None:
    lists = [a for graph in graphs(proto.graph) for node in graph.node for a in node.attribute if a.ints]
    chosen = random.choice(lists)
    if random.random() < 0.5:
        del chosen.ints[-1]
    else:
        chosen.ints.append(random.choice(LARGE[:6]))


def drop_attribute(proto: onnx.ModelProto, random: Random) -> None:
    nodes = [node for graph in graphs(proto.graph) for node in graph.node if node.attribute]
    attributes = random.choice(nodes).attribute
    del attributes[random.randrange(len(attributes))]


def add_attribute(proto: onnx.ModelProto, random: Random) -> None:
    name = random.choice(("axis", "keepdims", "to", "perm", "mode", "made_up", "group", "pads", "axes", "value", ""))
    value = random.choice((0, -5, 2**40, [0], [3, 1], 0.5, "what"))
    _node(proto, random).attribute.append(helper.make_attribute(name, value))


def swap_inputs(proto: onnx.ModelProto, random: Random) -> None:
    inputs = _node(proto, random).input
    a, b = random.randrange(len(inputs)), random.randrange(len(inputs))
    inputs[a], inputs[b] = inputs[b], inputs[a]


def rewire(proto: onnx.ModelProto, random: Random) -> None:
    """Another value of the model, perhaps a later one (a cycle), or none, as an input."""
    graph = _graph(proto, random)
    values = [name for node in graph.node for name in (*node.input, *node.output)]
    inputs = random.choice(graph.node).input
    inputs[random.randrange(len(inputs))] = random.choice((*values, *NAMES))


def drop_input(proto: onnx.ModelProto, random: Random) -> None:
    inputs = _node(proto, random).input
    place = random.randrange(len(inputs))
    if random.random() < 0.5:
        inputs[place] = ""
    else:
        del inputs[place]


def add_input(proto: onnx.ModelProto, random: Random) -> None:
    inputs = _node(proto, random).input
    inputs.extend([random.choice([*inputs, "x", "nothing", ""])] * random.choice((1, 1, 2, 100)))


def change_outputs(proto: onnx.ModelProto, random: Random) -> None:
    outputs = _node(proto, random).output
    kind = random.randrange(4)
    if kind == 0:
        outputs[random.randrange(len(outputs))] = random.choice(NAMES)
    elif kind == 1:
        del outputs[random.randrange(len(outputs))]
    elif kind == 2:
        outputs.append(random.choice(("more", "y", outputs[0])))
    else:
        outputs[0] = random.choice([name for node in proto.graph.node for name in (*node.input, *node.output)])


def change_operator(proto: onnx.ModelProto, random: Random) -> None:
    node = _node(proto, random)
    if random.random() < 0.2:
        node.domain = random.choice(("com.microsoft", "ai.onnx", "ai.onnx.ml", "own", "ö"))
    else:
        others = [other.op_type for other in proto.graph.node]
        node.op_type = random.choice((*others, *OPERATORS, *NAMES))


def copy_node(proto: onnx.ModelProto, random: Random) -> None:
    """The same outputs computed twice, or the node at another place of the order."""
    graph = _graph(proto, random)
    copy = onnx.NodeProto()
    copy.CopyFrom(random.choice(graph.node))
    nodes = list(graph.node)
    nodes.insert(random.randrange(len(nodes) + 1), copy)
    if random.random() < 0.5:
        nodes = random.sample(nodes, len(nodes))
    rest = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(rest)


def drop_node(proto: onnx.ModelProto, random: Random) -> None:
    nodes = _graph(proto, random).node
    del nodes[random.randrange(len(nodes))]


def change_shape(proto: onnx.ModelProto, random: Random) -> None:
    tensor = random.choice(proto.graph.input).type.tensor_type
    kind = random.randrange(5)
    if kind == 0 and tensor.shape.dim:
        tensor.shape.dim[random.randrange(len(tensor.shape.dim))].dim_value = random.choice(LARGE)
    elif kind == 1 and tensor.shape.dim:
        tensor.shape.dim[random.randrange(len(tensor.shape.dim))].dim_param = random.choice(NAMES)
    elif kind == 2:
        tensor.shape.dim.add().dim_value = random.choice((0, 1, 5))
    elif kind == 3 and tensor.shape.dim:
        del tensor.shape.dim[-1]
    else:
        tensor.ClearField("shape")


def change_type(proto: onnx.ModelProto, random: Random) -> None:
    if random.random() < 0.5 and proto.graph.initializer:
        random.choice(proto.graph.initializer).data_type = random.choice(range(-1, 26))
    else:
        random.choice(proto.graph.input).type.tensor_type.elem_type = random.choice(range(-1, 26))


def change_opset(proto: onnx.ModelProto, random: Random) -> None:
    entry = random.choice(proto.opset_import)
    if random.random() < 0.8:
        entry.version = random.choice((-1, 0, 1, 7, 12, 13, 14, 17, 18, 19, 20, 21, 22, 24, 99, 2**40))
    else:
        entry.domain = random.choice(("", "ai.onnx", "own", "x"))


def resize_initializer(proto: onnx.ModelProto, random: Random) -> None:
    tensor = random.choice(proto.graph.initializer)
    kind = random.randrange(4)
    if kind == 0 and tensor.dims:
        tensor.dims[random.randrange(len(tensor.dims))] = random.choice(LARGE)
    elif kind == 1:
        tensor.dims.append(random.choice((0, 1, 2, 10**9)))
    elif kind == 2:
        tensor.raw_data = tensor.raw_data[: random.randrange(len(tensor.raw_data) + 1)]
    else:
        del tensor.dims[:]


def replace_initializer(proto: onnx.ModelProto, random: Random) -> None:
    """Other contents or another shape, consistent in itself: shapes, axes and counts of any size."""
    tensor = random.choice(proto.graph.initializer)
    array = numpy_helper.to_array(tensor)
    choices = FLOATS if array.dtype.kind == "f" else [n for n in LARGE if -(2**63) <= n < 2**63]
    contents = array.copy().reshape(-1)
    if contents.size and random.random() < 0.7:
        with np.errstate(all="ignore"):
            contents[random.randrange(contents.size)] = np.asarray(random.choice(choices)).astype(array.dtype)
        changed = contents.reshape(array.shape)
    else:
        shape = random.choice(((), (0,), (1,), (2,), (3, 4), (4, 3), (2, 0), (1, 1, 1, 1, 1, 1, 1)))
        changed = np.resize(contents, shape) if contents.size else np.zeros(shape, array.dtype)
    tensor.CopyFrom(seeds.typed(changed, tensor.name, random.random() < 0.5))


def externalise(proto: onnx.ModelProto, random: Random) -> None:
    tensor = random.choice(proto.graph.initializer)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key in ("location", "offset", "length"):
        if random.random() < 0.8:
            entry = tensor.external_data.add()
            entry.key = key
            entry.value = random.choice(
                ("", "m.onnx", "/etc/passwd", "../x", "0", "-1", "4096", "1e9", str(2**70), ".")
            )


def rename(proto: onnx.ModelProto, random: Random) -> None:
    """A name that something else has, an empty one, or a strange one."""
    graph = proto.graph
    things = [*graph.node, *graph.initializer, *graph.input, *graph.output]
    names = [thing.name for thing in things]
    random.choice(things).name = random.choice((*names, *NAMES))


def duplicate(proto: onnx.ModelProto, random: Random) -> None:
    field = random.choice((proto.graph.initializer, proto.graph.input, proto.graph.output, proto.opset_import))
    field.add().CopyFrom(random.choice(field))


def drop(proto: onnx.ModelProto, random: Random) -> None:
    fields = (proto.graph.initializer, proto.graph.input, proto.graph.output, proto.opset_import, proto.functions)
    field = random.choice(fields)
    del field[random.randrange(len(field))]


def self_function(proto: onnx.ModelProto, random: Random) -> None:
    """A function that calls itself."""
    inner = helper.make_node("Again", ["a"], ["b"], domain="own")
    function = helper.make_function("own", "Again", ["a"], ["b"], [inner], proto.opset_import)
    function.opset_import.append(helper.make_opsetid("own", 1))
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.graph.node.append(helper.make_node("Again", [proto.graph.node[0].output[0]], ["again"], domain="own"))
    proto.graph.output.append(onnx.ValueInfoProto(name="again"))


def nest(proto: onnx.ModelProto, random: Random) -> None:
    """Branches within branches, many deep."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["nest.c"], ["nest.o"])], "deep", [], [onnx.ValueInfoProto(name="nest.o")]
    )
    for _ in range(random.choice((3, 25))):
        node = helper.make_node("If", ["nest.c"], ["nest.o"], then_branch=graph, else_branch=graph)
        node.attribute[1].g.ClearField("node")
        graph = helper.make_graph([node], "deep", [], [onnx.ValueInfoProto(name="nest.o")])
    proto.graph.initializer.append(numpy_helper.from_array(np.asarray(True), "nest.c"))
    proto.graph.node.append(graph.node[0])
    proto.graph.output.append(onnx.ValueInfoProto(name="nest.o"))


def long_chain(proto: onnx.ModelProto, random: Random) -> None:
    """Hundreds of nodes in a row."""
    last = proto.graph.node[-1].output[0]
    for index in range(random.choice((50, 400))):
        proto.graph.node.append(helper.make_node(random.choice(("Neg", "Abs", "Relu")), [last], [f"chain{index}"]))
        last = f"chain{index}"
    proto.graph.output[0].name = last


STRUCTURAL: tuple[Mutation, ...] = (
    *(change_attribute, change_attribute, change_attribute, retype_attribute, shorten_attribute, drop_attribute),
    *(add_attribute, swap_inputs, rewire, rewire, drop_input, add_input, change_outputs, change_operator, copy_node),
    *(drop_node, change_shape, change_shape, change_type, change_opset, resize_initializer, replace_initializer),
    *(replace_initializer, replace_initializer, replace_initializer, externalise, rename, duplicate, drop),
    *(self_function, nest, long_chain),
)
