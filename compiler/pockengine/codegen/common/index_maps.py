"""Contractions as index maps: products of matrices and the three operators of a convolution are all alike.

Each is out[b, m, n] = sum over k of A(b, m, k) * B(b, k, n). Each of b, m, n, k stands for several loops, its *digits*,
and an operand is read through a map from digits to an offset. Knows nothing of C."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...ir import Node
from ...ops import Convolution, convolution_of
from ...ops.convolution import Geometry
from .indexing import Ints, collapse, row_major


@dataclass(frozen=True)
class Digit:
    """One loop of an axis."""

    name: str
    extent: int


Axis = tuple[Digit, ...]


@dataclass(frozen=True)
class Window:
    """A coordinate of an image, `sum(coefficient * digit) + offset`: where it does not lie in 0 .. extent - 1 the
    element reads as zero. `stride` is that of the image axis."""

    terms: tuple[tuple[str, int], ...]
    offset: int
    extent: int
    stride: int


@dataclass(frozen=True)
class Access:
    """How one operand is read: elements per digit, plus windows. `operand` is its position among the anchor's
    inputs; one that is `computed` while it is packed does not lie in memory."""

    operand: int
    strides: Mapping[str, int]
    windows: tuple[Window, ...] = ()
    base: int = 0
    computed: bool = False

    def touches(self, axis: Axis) -> bool:
        """Whether a window depends on a digit of the axis."""
        names = {digit.name for digit in axis}
        return any(name in names for window in self.windows for name, _ in window.terms)

    def along(self, axis: Axis) -> Ints:
        """Strides of the axis's digits (0 for digits that only windows use)."""
        return tuple(self.strides.get(digit.name, 0) for digit in axis)

    def linear(self, axis: Axis) -> int | None:
        """The stride of the whole axis when it is walked as one loop."""
        known = self._linear
        if axis not in known:
            known[axis] = self._linear_stride(axis)
        return known[axis]

    @cached_property
    def _linear(self) -> dict[Axis, int | None]:
        """Axes that `linear` was asked for: cost models ask for each of their proposals."""
        return {}

    def _linear_stride(self, axis: Axis) -> int | None:
        if self.windows and self.touches(axis):
            return None
        if len(axis) == 1:
            return self.strides.get(axis[0].name, 0) if axis[0].extent > 1 else 0
        extents, (strides,) = collapse([digit.extent for digit in axis], [self.along(axis)])
        return strides[0] if len(extents) == 1 else None

    def simplified(self, extents: Mapping[str, int]) -> Access:
        """Without digits of one iteration, and with windows that are always valid turned into strides."""
        strides = {name: stride for name, stride in self.strides.items() if extents[name] > 1}
        windows, base = [], self.base
        for window in self.windows:
            terms = tuple((name, c) for name, c in window.terms if extents[name] > 1)
            low = window.offset + sum(min(0, c * (extents[name] - 1)) for name, c in terms)
            high = window.offset + sum(max(0, c * (extents[name] - 1)) for name, c in terms)
            if low >= 0 and high < window.extent:
                base += window.offset * window.stride
                for name, c in terms:
                    strides[name] = strides.get(name, 0) + c * window.stride
            else:
                windows.append(replace(window, terms=terms))
        return replace(self, strides=strides, windows=tuple(windows), base=base)


@dataclass(frozen=True)
class Contraction:
    """`shape` is the anchor's; `places[d]` says which digits, with which factors, make up index d of the anchor,
    which starts at `origin[d]` (at zero when there is no origin). `stored` has the digits of n in the order of the
    result in memory, where that is another one: the last digit of n first."""

    b: Axis
    m: Axis
    n: Axis
    k: Axis
    left: Access
    right: Access
    shape: tuple[int, ...]
    places: tuple[tuple[tuple[str, int], ...], ...]
    origin: tuple[int, ...] = ()
    stored: Axis = ()

    def sizes(self) -> tuple[int, int, int, int]:
        """Total extents of b, m, n, k."""
        return self._sizes

    @cached_property
    def _sizes(self) -> tuple[int, int, int, int]:
        batch, m, n, k = (math.prod(digit.extent for digit in axis) for axis in (self.b, self.m, self.n, self.k))
        return batch, m, n, k

    @cached_property
    def result_steps(self) -> Mapping[str, int]:
        """Digit -> stride in the result."""
        return self.steps(row_major(self.shape))

    def swapped(self) -> Contraction:
        """The same contraction with rows and columns exchanged: out^T = B^T A^T."""
        return replace(self, m=self.n, n=self.m, left=self.right, right=self.left, stored=())

    def simplified(self) -> Contraction:
        """Drops digits of one iteration."""
        extents = {digit.name: digit.extent for axis in (self.b, self.m, self.n, self.k) for digit in axis}
        b, m, n, k = (tuple(d for d in axis if d.extent != 1) for axis in (self.b, self.m, self.n, self.k))
        places = tuple(tuple((name, c) for name, c in place if extents[name] != 1) for place in self.places)
        left, right = self.left.simplified(extents), self.right.simplified(extents)
        stored = tuple(d for d in self.stored if d.extent != 1)
        stored = () if stored == n else stored
        return replace(self, b=b, m=m, n=n, k=k, left=left, right=right, places=places, stored=stored)

    def steps(self, strides: Sequence[int]) -> dict[str, int]:
        """Digit -> stride, for an operand with these strides along the anchor's axes."""
        result: dict[str, int] = {}
        for place, stride in zip(self.places, strides, strict=True):
            for name, factor in place:
                result[name] = result.get(name, 0) + factor * stride
        return result


def contractions_of(
    anchor: Node, computed: Collection[int] = (), strides: Mapping[int, Ints] | None = None
) -> list[Contraction]:
    """The index maps of a product of matrices, or of an operator of a convolution: one contraction. The input gradient
    of a strided convolution has one for each residue of the pixel modulo the stride, as each sees other taps.

    computed   the operands that are computed while they are packed
    strides    of operands that do not lie in memory as tensors of their shape do"""
    lies = {i: row_major(value.type.shape) for i, value in enumerate(anchor.inputs)} | dict(strides or {})
    match convolution_of(anchor):
        case Convolution.IMAGE_GRADIENT:
            made = _conv_dx(anchor, lies)
        case Convolution.FORWARD:
            made = [_conv(anchor, lies)]
        case Convolution.FILTER_GRADIENT:
            made = [_conv_dw(anchor, lies)]
        case _:
            made = [_matmul(anchor, lies)]
    return [_marked(contraction.simplified(), computed) for contraction in made]


def _marked(c: Contraction, computed: Collection[int]) -> Contraction:
    left, right = (replace(access, computed=access.operand in computed) for access in (c.left, c.right))
    return replace(c, left=left, right=right)


def _axis(*digits: tuple[str, int]) -> Axis:
    return tuple(Digit(name, extent) for name, extent in digits)


def _matmul(node: Node, lies: Mapping[int, Ints]) -> Contraction:
    left = node.inputs[0].type.shape
    lead = left[:-2]
    names = [f"b{i}" for i in range(len(lead))]

    def access(operand: int, outer: str, inner: str, transposed: bool) -> Access:
        *batch, first, second = lies[operand]
        outer, inner = (inner, outer) if transposed else (outer, inner)
        return Access(operand, {**dict(zip(names, batch, strict=True)), outer: first, inner: second})

    shape = node.output.type.shape
    depth = left[-2 if node.attrs["trans_a"] else -1]
    return Contraction(
        _axis(*zip(names, lead, strict=True)),
        _axis(("m", shape[-2])),
        _axis(("n", shape[-1])),
        _axis(("k", depth)),
        access(0, "m", "k", bool(node.attrs["trans_a"])),
        access(1, "k", "n", bool(node.attrs["trans_b"])),
        shape,
        (*(((name, 1),) for name in names), (("m", 1),), (("n", 1),)),
    )


@dataclass(frozen=True)
class _Image:
    """Strides of an image along batch, channels, height and width."""

    n: int
    c: int
    h: int
    w: int

    @classmethod
    def of(cls, strides: Ints, geometry: Geometry) -> _Image:
        a, b, c, d = strides
        return cls(a, d, b, c) if geometry.nhwc else cls(a, b, c, d)


@dataclass(frozen=True)
class _Residue:
    """Pixels `start + stride * i` of an axis, i < count: they see taps `first + step * t`, t < taps, in output pixel
    `i + offset - slope * t`."""

    start: int
    count: int
    first: int
    step: int
    taps: int
    offset: int
    slope: int

    @classmethod
    def all(cls, size: int, taps: int, stride: int, dilation: int, pad: int) -> list[_Residue]:
        """Every residue that has pixels."""
        step = stride // math.gcd(stride, dilation)
        found = []
        for start in range(min(stride, size)):
            seen = [tap for tap in range(taps) if (start + pad - tap * dilation) % stride == 0]
            first = seen[0] if seen else 0
            offset = (start + pad - first * dilation) // stride
            count = -(-(size - start) // stride)
            found.append(cls(start, count, first, step, len(seen), offset, step * dilation // stride))
        return found


@dataclass(frozen=True)
class _Conv:
    """The sizes of a convolution: x [N, g*I, H, W] * w [g*O, I, R, S] -> y [N, g*O, P, Q]. `lies` has the strides of
    what is read, by operand."""

    geometry: Geometry
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    lies: Mapping[int, Ints]

    def image(self, shape: tuple[int, ...], place: dict[str, str]) -> tuple[tuple[tuple[str, int], ...], ...]:
        """`places` of an anchor that is an image; `place` maps n, c, h, w to digits, c without its group."""
        channels = self.geometry.nchw(shape)[1] // self.geometry.groups
        by_axis = {
            "n": ((place["n"], 1),),
            "c": (("g", channels), (place["c"], 1)),
            "h": ((place["h"], 1),),
            "w": ((place["w"], 1),),
        }
        return tuple(by_axis[axis] for axis in ("nhwc" if self.geometry.nhwc else "nchw"))

    def weights(self, rows: _Residue | None = None, columns: _Residue | None = None) -> Access:
        """All taps, or those that pixels of these residues see."""
        outputs = self.w[0] // self.geometry.groups
        o, i, r, s = self.lies[1]
        base = 0
        if rows is not None and columns is not None:
            base = rows.first * r + columns.first * s
            r, s = rows.step * r, columns.step * s
        return Access(1, {"g": outputs * o, "o": o, "i": i, "r": r, "s": s}, (), base)

    def reads_x(self, operand: int) -> Access:
        """x at the pixels that output pixel (p, q) sees through tap (r, s)."""
        image, g = _Image.of(self.lies[operand], self.geometry), self.geometry
        _, _, h, w = g.nchw(self.x)
        rows = Window((("p", g.stride[0]), ("r", g.dilation[0])), -g.pad[0], h, image.h)
        columns = Window((("q", g.stride[1]), ("s", g.dilation[1])), -g.pad[1], w, image.w)
        return Access(operand, {"b": image.n, "g": self.w[1] * image.c, "i": image.c}, (rows, columns))

    def reads_y(self, operand: int) -> Access:
        image = _Image.of(self.lies[operand], self.geometry)
        outputs = self.w[0] // self.geometry.groups
        return Access(operand, {"b": image.n, "g": outputs * image.c, "o": image.c, "p": image.h, "q": image.w})

    def gathers_y(self, operand: int, rows: _Residue, columns: _Residue) -> Access:
        """y at the pixels that saw input pixel (h, w) through tap (r, s)."""
        image, g = _Image.of(self.lies[operand], self.geometry), self.geometry
        _, _, p, q = g.nchw(self.y)
        high = Window((("h", 1), ("r", -rows.slope)), rows.offset, p, image.h)
        wide = Window((("w", 1), ("s", -columns.slope)), columns.offset, q, image.w)
        outputs = self.w[0] // g.groups
        return Access(operand, {"b": image.n, "g": outputs * image.c, "o": image.c}, (high, wide))

    def axes(self) -> dict[str, tuple[str, int]]:
        """Every digit by name."""
        (n, _, h, w), (_, _, p, q) = self.geometry.nchw(self.x), self.geometry.nchw(self.y)
        outputs, inputs, r, s = self.w
        groups = self.geometry.groups
        sizes = {
            "b": n,
            "g": groups,
            "h": h,
            "w": w,
            "p": p,
            "q": q,
            "o": outputs // groups,
            "i": inputs,
            "r": r,
            "s": s,
        }
        return {name: (name, size) for name, size in sizes.items()}


def _select(axes: dict[str, tuple[str, int]], names: str) -> Axis:
    return _axis(*(axes[name] for name in names))


def _conv(node: Node, lies: Mapping[int, Ints]) -> Contraction:
    x, w = (value.type.shape for value in node.inputs)
    conv = _Conv(Geometry.of(node.attrs), x, w, node.output.type.shape, lies)
    axes = conv.axes()
    places = conv.image(conv.y, {"n": "b", "c": "o", "h": "p", "w": "q"})
    return Contraction(
        _select(axes, "g"), _select(axes, "bpq"), _select(axes, "o"), _select(axes, "rsi"),
        conv.reads_x(0), conv.weights(), conv.y, places,
    )  # fmt: skip


def _conv_dx(node: Node, lies: Mapping[int, Ints]) -> list[Contraction]:
    y, w = (value.type.shape for value in node.inputs)
    conv = _Conv(Geometry.of(node.attrs), node.output.type.shape, w, y, lies)
    g = conv.geometry
    _, _, height, width = g.nchw(conv.x)
    places = conv.image(conv.x, {"n": "b", "c": "i", "h": "h", "w": "w"})
    found = []
    for rows in _Residue.all(height, w[2], g.stride[0], g.dilation[0], g.pad[0]):
        for columns in _Residue.all(width, w[3], g.stride[1], g.dilation[1], g.pad[1]):
            sizes = {"h": rows.count, "w": columns.count, "r": rows.taps, "s": columns.taps}
            axes = conv.axes() | {name: (name, size) for name, size in sizes.items()}
            factors = {"h": g.stride[0], "w": g.stride[1]}
            spread = tuple(tuple((name, factors.get(name, c)) for name, c in place) for place in places)
            starts = {"h": rows.start, "w": columns.start}
            found.append(
                Contraction(
                    b=_select(axes, "g"),
                    m=_select(axes, "bhw"),
                    n=_select(axes, "i"),
                    k=_select(axes, "rso"),
                    left=conv.gathers_y(0, rows, columns),
                    right=conv.weights(rows, columns),
                    shape=conv.x,
                    places=spread,
                    origin=tuple(sum(starts.get(name, 0) for name, _ in place) for place in places),
                )
            )
    return found


def _conv_dw(node: Node, lies: Mapping[int, Ints]) -> Contraction:
    x, y = (value.type.shape for value in node.inputs)
    conv = _Conv(Geometry.of(node.attrs), x, node.output.type.shape, y, lies)
    axes = conv.axes()
    outputs = conv.w[0] // conv.geometry.groups
    places = ((("g", outputs), ("o", 1)), (("i", 1),), (("r", 1),), (("s", 1),))
    return Contraction(
        _select(axes, "g"), _select(axes, "o"), _select(axes, "rsi"), _select(axes, "bpq"),
        conv.reads_y(1), conv.reads_x(0), conv.w, places, stored=_select(axes, "irs"),
    )  # fmt: skip


def inside(access: Access) -> list[str]:
    """Conditions under which an element lies within the image; the digits are called `at_NAME`."""
    return [f"{_coordinate(w)} >= 0 && {_coordinate(w)} < {w.extent}" for w in access.windows]


def element_offset(access: Access) -> str:
    """Expression of an element's offset, likewise."""
    terms = [f"at_{name} * {stride}" for name, stride in access.strides.items() if stride]
    terms += [f"({_coordinate(w)}) * {w.stride}" for w in access.windows]
    return " + ".join([*terms, str(access.base)])


def _coordinate(window: Window) -> str:
    terms = [f"at_{name} * {factor}" for name, factor in window.terms]
    return " + ".join([*terms, str(window.offset)])
