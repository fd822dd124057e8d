"""The register micro-kernel: a tile of C, `rows` x `vectors` vector registers, gathers the products of a block of k.

Written with clang's vector extensions, so the same text is AVX-512, AVX2 and NEON. A is read one element at a time and
broadcast, B one vector at a time; all strides are constants, which clang folds into addresses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tile:
    """One variant. Strides in elements: A along rows and k, B along k, C along rows."""

    rows: int
    vectors: int
    lanes: int
    a_row: int
    a_k: int
    b_k: int
    c_row: int

    @property
    def name(self) -> str:
        return f"tile_{self.rows}x{self.vectors}"


def vector_type(lanes: int) -> str:
    """The vector register; `aligned(4)` allows loads from anywhere."""
    return f"typedef float vec __attribute__((vector_size({4 * lanes}), aligned(4), may_alias));"


def define(tile: Tile) -> str:
    """C definition of `void NAME(ptrdiff_t depth, const float *a, const float *b, float *c, int more)`: c = a * b, or
    c += a * b when `more`."""
    lines = [
        "static __attribute__((noinline)) void",
        f"{tile.name}(ptrdiff_t depth, const float *a, const float *b, float *c, int more)",
        "{",
    ]
    names = [[f"c{i}_{j}" for j in range(tile.vectors)] for i in range(tile.rows)]
    for row in names:
        lines.append(f"    vec {', '.join(f'{name} = {{0}}' for name in row)};")
    lines.append("    for (ptrdiff_t k = 0; k < depth; ++k) {")
    columns = [f"b{j} = *(const vec *)(b + {j * tile.lanes})" for j in range(tile.vectors)]
    lines.append(f"        const vec {', '.join(columns)};")
    for i, row in enumerate(names):
        terms = " ".join(f"{name} += a{i} * b{j};" for j, name in enumerate(row))
        lines.append(f"        const float a{i} = a[{i * tile.a_row}]; {terms}")
    lines.append(f"        a += {tile.a_k};")
    lines.append(f"        b += {tile.b_k};")
    lines.append("    }")
    lines.append("    if (more) {")
    for i, row in enumerate(names):
        lines.append("        " + " ".join(f"{name} += {_place(tile, i, j)};" for j, name in enumerate(row)))
    lines.append("    }")
    for i, row in enumerate(names):
        lines.append("    " + " ".join(f"{_place(tile, i, j)} = {name};" for j, name in enumerate(row)))
    lines.append("}")
    return "\n".join(lines)


def _place(tile: Tile, i: int, j: int) -> str:
    return f"*(vec *)(c + {i * tile.c_row + j * tile.lanes})"
