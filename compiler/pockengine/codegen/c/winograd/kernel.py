"""Kernels of 3 x 3 convolutions of stride 1, and of their input gradients, by Winograd's minimal filtering.

Tiles of the image are transformed, and so are the weights. Then there is one product for each point of a tile. The
results are transformed back, with the epilogue. An input gradient is the convolution of dy with the taps turned around.

Weights are transformed in every step, so they take no memory beside the original. Where threads share the tiles of the
image, a first call transforms all weights. Where they share the columns of the weights, a first call transforms the
image, and each thread transforms a panel of weights at a time, which stays in its second-level cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....ir import Node
from ....plan.program import Kernel, Lowered
from ...common.index_maps import contractions_of
from ...common.mathlib import functions
from ...common.region import anchor_of, body_of, elementwise_pairs
from ...common.scratch import aligned
from ...common.winograd.transforms import TAPS
from ..contraction import microkernel
from ..contraction.formats import f32
from ..contraction.packers import transposition
from ..emit.calls import call
from ..emit.epilogue import Epilogue
from ..emit.source import SIGNATURE, Code, kernel
from .lines import emit_line
from .plan import Share, Winograd

ALIGNED = "__attribute__((aligned(64)))"


def lower(node: Node, plan: Winograd) -> Lowered:
    """The two kernels of a contraction region whose anchor the plan computes."""
    writer = _Writer(node, plan)
    first, second = writer.kernels()
    calls = (call(node, first, True, True, share=0.0), call(node, second, True))
    return Lowered(calls, plan.workspace_bytes, elementwise_pairs(node, anchor_of(node).inputs))


@dataclass
class _Writer:
    node: Node
    plan: Winograd

    def kernels(self) -> tuple[Kernel, Kernel]:
        """What comes first for all tasks, and the products with what belongs to them."""
        first = self._weights_first() if self.plan.split is Share.TILES else self._image_first()
        return first, self._products()

    def _weights_first(self) -> Kernel:
        code, p = self._code(), self.plan
        self._emit_weights(code)
        with code.block(SIGNATURE):
            self._declare(code, "w", 1)
            self._workspace(code, ("shared",))
            code.share(p.panels)
            with code.loop("panel", "last", "first"):
                code.line(f"weights(w, panel * {p.columns}, shared + panel * {p.panel_step});")
        return kernel("winograd_weights", f"transformed weights of {self._title()}", code.text())

    def _image_first(self) -> Kernel:
        code, p = self._code(), self.plan
        self._emit_image(code)
        with code.block(SIGNATURE):
            self._declare(code, "x", 0)
            self._workspace(code, ("shared",))
            code.share(p.tiles)
            code.line(f"image(x, first, last, shared + first * {p.row_step});")
        return kernel("winograd_image", f"transformed image of {self._title()}", code.text())

    def _products(self) -> Kernel:
        code, p = self._code(), self.plan
        tiles_shared = p.split is Share.TILES
        (self._emit_image if tiles_shared else self._emit_weights)(code)
        pixels = contractions_of(p.anchor)[0]
        needs = Epilogue(body_of(self.node), p.anchor, pixels, columns=p.columns).emit(code)
        self._emit_multiply(code)
        self._emit_results(code)
        with code.block(SIGNATURE):
            self._declare(code, *(("x", 0) if tiles_shared else ("w", 1)))
            self._workspace(code, ("shared", "own", "sums"))
            if tiles_shared:
                code.share(p.units)
                code.line(f"const ptrdiff_t end = last * {p.rows} < {p.tiles} ? last * {p.rows} : {p.tiles};")
                self._blocks(code, f"first * {p.rows}", "end")
            else:
                code.share(p.panels)
                with code.loop("panel", "last", "first"):
                    code.line(f"weights(w, panel * {p.columns}, own);")
                    self._blocks(code, "0", str(p.tiles))
        return kernel("winograd", self._title(), code.text(), functions(needs))

    def _blocks(self, code: Code, first: str, end: str) -> None:
        """The loop over blocks of tiles, which are multiplied with all panels, or with the panel at hand."""
        p = self.plan
        with code.block(f"for (ptrdiff_t start = {first}; start < {end}; start += {p.block})"):
            code.line(f"const ptrdiff_t count = {end} - start < {p.block} ? {end} - start : {p.block};")
            if p.split is Share.TILES:
                code.line("image(x, start, start + count, own);")
                with code.loop("panel", p.panels):
                    code.line(f"multiply(count, own, shared + panel * {p.panel_step}, sums);")
                    code.line(f"results(arg, start, count, panel * {p.columns}, sums);")
            else:
                code.line(f"multiply(count, shared + start * {p.row_step}, own, sums);")
                code.line(f"results(arg, start, count, panel * {p.columns}, sums);")

    def _code(self) -> Code:
        code = Code()
        code.line(microkernel.vector_type(self.plan.lanes))
        code.line()
        return code

    def _title(self) -> str:
        shapes = ", ".join(str(value.type) for value in self.plan.anchor.inputs)
        return f"{self.plan.anchor.op}({shapes}) pad {self.plan.geometry.pad}: {self.plan.tile.describe()}"

    def _declare(self, code: Code, name: str, operand: int) -> None:
        index = body_of(self.node).inputs.index(self.plan.anchor.inputs[operand])
        code.line(f"const float *const {name} = arg[{index}]; /* {self.plan.anchor.inputs[operand].type} */")

    def _workspace(self, code: Code, names: Sequence[str]) -> None:
        p = self.plan
        places = {
            "shared": "0",
            "own": f"{p.shared_bytes} + task * (ptrdiff_t){p.task_bytes}",
            "sums": f"{p.shared_bytes + aligned(p.own_bytes)} + task * (ptrdiff_t){p.task_bytes}",
        }
        code.line(f"char *const workspace = arg[{len(self.node.inputs) + len(self.node.outputs)}];")
        for name in names:
            code.line(f"float *const {name} = (float *)(void *)(workspace + {places[name]});")

    def _emit_image(self, code: Code) -> None:
        """Define `image`: tiles first .. last - 1 become rows [point][tile][channel]; pixels beyond the edges are
        zero."""
        p = self.plan
        side, lanes, (height, width) = p.transforms.side, p.lanes, p.source
        emit_line(code, "image_line", p.transforms.image)
        code.line(f"static const float zeros[{p.depth}];")
        code.line()
        with (
            code.block("static void\nimage(const float *x, ptrdiff_t first, ptrdiff_t last, float *to)"),
            code.block(f"for (ptrdiff_t tile = first; tile < last; ++tile, to += {p.row_step})"),
        ):
            self._place(code, "tile")
            code.line(f"const float *at[{side**2}];")
            with code.loop("i", side), code.loop("j", side):
                code.line(f"const ptrdiff_t h = p + i - {p.offset[0]}, w = q + j - {p.offset[1]};")
                code.line(f"const int inside = h >= 0 && h < {height} && w >= 0 && w < {width};")
                address = f"x + ((b * {height} + h) * {width} + w) * {p.depth}"
                code.line(f"at[i * {side} + j] = inside ? {address} : zeros;")
            with code.block(f"for (ptrdiff_t c = 0; c < {p.depth}; c += {lanes})"):
                pixel = [f"at[{i * side} + j] + c" for i in range(side)]
                self._both_ways(code, "image_line", side, pixel, f"to + i * {side * p.image_step} + c", p.image_step)
        code.line()

    def _both_ways(self, code: Code, line: str, made: int, column: Sequence[str], to: str, step: int) -> None:
        """A matrix of `made` rows times a square of vectors times its transpose: `line` goes over the columns, whose
        elements `column` addresses (column j), then over the rows of that, of which row i is written at `to`."""
        taken, lanes = len(column), self.plan.lanes
        code.line(f"float half[{made * taken * lanes}] {ALIGNED};")
        with code.loop("j", taken):
            read = ", ".join(f"*(const vec *)({element})" for element in column)
            code.line(f"{line}({read}, half + j * {lanes}, {taken * lanes});")
        with code.loop("i", made):
            read = ", ".join(f"*(const vec *)(half + (i * {taken} + {j}) * {lanes})" for j in range(taken))
            code.line(f"{line}({read}, {to}, {step});")

    def _place(self, code: Code, tile: str) -> None:
        """Declare the image b and the pixel (p, q) of the result where a tile begins."""
        down, along = self.plan.grid
        m = self.plan.outputs
        code.line(f"const ptrdiff_t b = ({tile}) / {down * along};")
        code.line(f"const ptrdiff_t p = ({tile}) / {along} % {down} * {m}, q = ({tile}) % {along} * {m};")

    def _emit_weights(self, code: Code) -> None:
        """Define `weights`: the panel of columns n0 .. becomes [point][k][column]."""
        p = self.plan
        side, lanes, taps = p.transforms.side, p.lanes, TAPS * TAPS
        code.line(transposition(lanes))
        code.line()
        emit_line(code, "taps_line", p.transforms.taps)
        with code.block("static void\ntransform(const float *taps, float *to)"):
            tap = [f"taps + ({r * TAPS} + j) * {lanes}" for r in range(TAPS)]
            self._both_ways(code, "taps_line", side, tap, f"to + i * {side * p.weight_step}", p.weight_step)
        code.line()
        with code.block("static void\nweights(const float *w, ptrdiff_t n0, float *to)"):
            (self._turned_around if p.gradient else self._as_stored)(code, taps)
        code.line()

    def _as_stored(self, code: Code, taps: int) -> None:
        """Columns are the outer axis of the weights: squares of [column][k and tap] are turned."""
        p, lanes = self.plan, self.plan.lanes
        with (
            code.block(f"for (ptrdiff_t n = 0; n < {p.columns}; n += {lanes})"),
            code.block(f"for (ptrdiff_t k = 0; k < {p.depth}; k += {lanes})"),
        ):
            code.line(f"float taps[{taps * lanes * lanes}] {ALIGNED};")
            with code.block(f"for (ptrdiff_t e = 0; e < {taps * lanes}; e += {lanes})"):
                code.line(f"vec block[{lanes}];")
                with code.loop("i", lanes):
                    row = f"(n0 + n + i) * {p.depth * taps}"
                    code.line(f"block[i] = *(const vec *)(w + {row} + k * {taps} + e);")
                code.line("transpose(block);")
                with code.loop("i", lanes):
                    code.line(f"*(vec *)(taps + (e + i) * {lanes}) = block[i];")
            with code.loop("i", lanes):
                code.line(f"transform(taps + i * {taps * lanes}, to + (k + i) * {p.columns} + n);")

    def _turned_around(self, code: Code, taps: int) -> None:
        """Columns are the inner axis of the weights: for each k, the taps of a vector of columns are put apart, the
        last one first."""
        p, lanes = self.plan, self.plan.lanes
        run = p.columns * taps
        with code.loop("k", p.depth):
            code.line(f"float run[{run + lanes}] {ALIGNED};")
            code.line(f"__builtin_memcpy(run, w + (k * {p.width} + n0) * {taps}, {4 * run});")
            with code.block(f"for (ptrdiff_t n = 0; n < {p.columns}; n += {lanes})"):
                code.line(f"float taps[{taps * lanes}] {ALIGNED};")
                with code.block(f"for (ptrdiff_t e = 0; e < {taps}; e += {lanes})"):
                    code.line(f"vec block[{lanes}];")
                    with code.loop("i", lanes):
                        code.line(f"block[i] = *(const vec *)(run + (n + i) * {taps} + e);")
                    code.line("transpose(block);")
                    code.line(f"const ptrdiff_t count = {taps} - e < {lanes} ? {taps} - e : {lanes};")
                    with code.loop("i", "count"):
                        code.line(f"*(vec *)(taps + ({taps - 1} - e - i) * {lanes}) = block[i];")
                code.line(f"transform(taps, to + k * {p.columns} + n);")

    def _emit_multiply(self, code: Code) -> None:
        """Define `multiply`: sums [point][tile][column] of `count` tiles with one panel."""
        p = self.plan
        heights = [p.rows] * (p.tiles >= p.rows) + [p.tiles % p.rows] * (p.tiles % p.rows > 0)
        vectors = p.columns // p.lanes
        tiles = [microkernel.Tile(height, vectors, p.lanes, p.row_step, 1, p.columns, p.columns) for height in heights]
        for tile in tiles:
            code.line(microkernel.define(tile, f32(p.target)))
            code.line()
        header = "static void\nmultiply(ptrdiff_t count, const float *image, const float *weights, float *sums)"
        with (
            code.block(header),
            code.loop("point", p.transforms.points),
            code.block(f"for (ptrdiff_t m = 0; m < count; m += {p.rows})"),
        ):
            code.line(f"const ptrdiff_t rows = count - m < {p.rows} ? count - m : {p.rows};")
            code.line(f"const float *const a = image + point * {p.image_step} + m * {p.row_step};")
            code.line(f"const float *const b = weights + point * {p.weight_step};")
            code.line(f"float *const c = sums + point * {p.sums_step} + m * {p.columns};")
            for tile in tiles:
                code.line(f"if (rows == {tile.rows})")
                code.line(f"    {tile.name}({p.depth}, a, b, c, 0);")
        code.line()

    def _emit_results(self, code: Code) -> None:
        """Define `results`: tiles of sums become pixels, which the epilogue finishes row by row."""
        p = self.plan
        side, lanes, m, (height, width) = p.transforms.side, p.lanes, p.outputs, p.result
        emit_line(code, "result_line", p.transforms.result)
        header = "static void\nresults(void *const *arg, ptrdiff_t start, ptrdiff_t count, ptrdiff_t n0, "
        with code.block(header + "const float *sums)"), code.loop("tile", "count"):
            self._place(code, "start + tile")
            code.line(f"float pixels[{m * m * p.columns}] {ALIGNED};")
            with code.block(f"for (ptrdiff_t n = 0; n < {p.columns}; n += {lanes})"):
                code.line(f"const float *const from = sums + tile * {p.columns} + n;")
                point = [f"from + ({i * side} + j) * {p.sums_step}" for i in range(side)]
                self._both_ways(code, "result_line", m, point, f"pixels + i * {m * p.columns} + n", p.columns)
            code.line(f"const ptrdiff_t high = {height} - p < {m} ? {height} - p : {m};")
            code.line(f"const ptrdiff_t wide = {width} - q < {m} ? {width} - q : {m};")
            with code.loop("i", "high"):
                row = f"(b * {height} + p + i) * {width} + q"
                code.line(f"finish(arg, 0, {row}, n0, pixels + i * {m * p.columns}, {p.columns}, wide, {p.columns});")
        code.line()
