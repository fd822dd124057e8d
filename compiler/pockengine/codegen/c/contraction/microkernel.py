"""The register micro-kernel: a tile of C, `rows` x `vectors` vector registers, gathers the products of a block of k.

Written with clang's vector extensions, so the same text is AVX-512, AVX2 and NEON; 16-bit formats add one instruction,
AMX its tiles. A is read one element (or pair) at a time and broadcast, B one vector at a time; all strides are
constants, which clang folds into addresses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .formats import Format, Instruction

TILE_ROWS = 16
"""Rows of a tile register: 16 of 64 bytes."""
AMX_DEPTH = 256
"""k at a time: 32 columns of B then take a third of the first-level cache. Tiles are as quick as what feeds them: 1.4
ms instead of 1.8 for 512 x 3072 x 768 on one core, where all of k came from the second level."""

AHEAD = 12
"""Steps of k by which lines of B are asked for before they are read: the latency of the second-level cache. Where B
lies there, a core goes from 124 to 150 Gflop/s of 184 (768 deep, 9 x 48)."""
LINE_BYTES = 64


@dataclass(frozen=True)
class Tile:
    """One variant. Strides in elements: A along rows and k, B along k, C along rows; where elements have several parts,
    `a_parts` of those of A, from one part to the next."""

    rows: int
    vectors: int
    lanes: int
    a_row: int
    a_k: int
    b_k: int
    c_row: int
    a_parts: int = 1
    a_part: int = 0
    b_part: int = 0

    @property
    def name(self) -> str:
        return f"tile_{self.rows}x{self.vectors}"


def vector_type(lanes: int) -> str:
    """The vector register; `aligned(4)` allows loads from anywhere."""
    return f"typedef float vec __attribute__((vector_size({4 * lanes}), aligned(4), may_alias));"


def define(tile: Tile, format: Format) -> str:
    """C definition of `void NAME(ptrdiff_t depth, const T *a, const T *b, float *c, int more)`: c = a * b, or c += a *
    b when `more`."""
    header = [
        "static __attribute__((noinline)) void",
        f"{tile.name}(ptrdiff_t depth, const {format.type} *a, const {format.type} *b, float *c, int more)",
        "{",
    ]
    return "\n".join([*header, *unit_of(format).body(tile, format), "}"])


@dataclass(frozen=True)
class Unit:
    """What of a core multiplies.

    body      writes the micro-kernel's statements
    shape     what a kernel declares for it
    begin     the statement before a task's first product
    end       that after the last one
    slice     steps of k of a panel that are multiplied with all rows of a block before the next ones, where numbers are
              one part; 0: all of them
    """

    body: Callable[[Tile, Format], list[str]]
    shape: str = ""
    begin: str = ""
    end: str = ""
    slice: int = 0


def unit_of(format: Format) -> Unit:
    """The unit that multiplies numbers of a format."""
    return _TILES if format.instruction is Instruction.AMX else _VECTORS


def _vectors(tile: Tile, format: Format) -> list[str]:
    lanes = 4 if format.instruction is Instruction.FMLAL else tile.lanes
    count = tile.vectors * tile.lanes // lanes
    type = "float32x4_t" if format.instruction is Instruction.FMLAL else "vec"
    names = [[f"c{i}_{j}" for j in range(count)] for i in range(tile.rows)]
    places = [[f"*({type} *)(c + {i * tile.c_row + j * lanes})" for j in range(count)] for i in range(tile.rows)]
    lines = [f"    {type} {', '.join(f'{name} = {{0}}' for name in row)};" for row in names]
    fetched = _lines_of_row(tile)
    if fetched:
        lines.append("    if (more) {")
        for i in range(tile.rows):
            starts = [i * tile.c_row + at // 4 for at in fetched]
            lines.append("        " + " ".join(f"__builtin_prefetch(c + {start}, 1);" for start in starts))
        lines.append("    }")
    lines.append(f"    for (ptrdiff_t k = 0; k < depth; k += {format.group}) {{")
    starts = [AHEAD * tile.b_k * format.group + at // format.nbytes for at in fetched]
    lines += [f"        __builtin_prefetch(b + {start});" for start in starts]
    lines += [f"        {line}" for line in _products(tile, format, names)]
    lines += [f"        a += {tile.a_k * format.group};", f"        b += {tile.b_k * format.group};", "    }"]
    lines.append("    if (more) {")
    for row, place in zip(names, places, strict=True):
        lines.append("        " + " ".join(f"{name} += {at};" for name, at in zip(row, place, strict=True)))
    lines.append("    }")
    for row, place in zip(names, places, strict=True):
        lines.append("    " + " ".join(f"{at} = {name};" for name, at in zip(row, place, strict=True)))
    return lines


def asks_ahead(lanes: int) -> bool:
    """Whether tiles ask for lines before they read them. Those of NEON do not: a small core starts two or three
    instructions at once, and these would take the place of arithmetic."""
    return lanes > 4


def _lines_of_row(tile: Tile) -> range:
    """Bytes at which the lines of a row of B or C begin that the tile asks for ahead."""
    return range(0, 4 * tile.vectors * tile.lanes if asks_ahead(tile.lanes) else 0, LINE_BYTES)


def _products(tile: Tile, format: Format, names: list[list[str]]) -> list[str]:
    """One step of k: the vectors of B, then each row's element of A times all of them."""
    vector, broadcast, product = _INSTRUCTIONS[format.instruction]
    columns = [f"b{j} = *(const {vector} *)(b + {j * tile.lanes * format.group})" for j in range(tile.vectors)]
    lines = [f"const {vector} {', '.join(columns)};"]
    for i, row in enumerate(names):
        each = len(row) // tile.vectors
        terms = [
            product.format(c=name, a=f"a{i}", b=f"b{j // each}", half=("low", "high")[j % 2])
            for j, name in enumerate(row)
        ]
        lines.append(f"{broadcast.format(i=i, at=i * tile.a_row)} {' '.join(terms)}")
    return lines


_PAIR = "const pairs a{i} = (pairs)((words){{0}} + *(const word *)(const void *)(a + {at}));"
_INSTRUCTIONS = {
    Instruction.FMA: ("vec", "const float a{i} = a[{at}];", "{c} += {a} * {b};"),
    Instruction.DPBF16: ("pairs", _PAIR, "{c} = dot({c}, {a}, {b});"),
    Instruction.BFDOT: ("pairs", _PAIR, "{c} = dot({c}, {a}, {b});"),
    Instruction.FMLAL: (
        "float16x8_t",
        "const float16x8_t a{i} = vdupq_n_f16(a[{at}]);",
        "{c} = vfmlalq_{half}_f16({c}, {a}, {b});",
    ),
}
"""Vector type of B, the broadcast of an element of A, and the product."""

AMX_SHAPE = """\
/* Eight tile registers of 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_shape = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
"""


def _amx(tile: Tile, format: Format) -> list[str]:
    """Registers 0 .. 3 are the results, 4 and 5 two tiles of B, 6 and 7 one of A each; rows beyond the last one of A
    give results that nobody reads. What the next product of parts shares with the last one stays where it is."""
    tall = range(-(-tile.rows // TILE_ROWS))
    wide = range(tile.vectors)
    results = [
        (i, j, 2 * i + j, f"c + {i * TILE_ROWS * tile.c_row + j * tile.lanes}, {4 * tile.c_row}")
        for i in tall
        for j in wide
    ]
    lines = ["    if (more) {"]
    lines += [f"        __builtin_ia32_tileloadd64({number}, {place});" for _, _, number, place in results]
    lines.append("    } else {")
    lines += [f"        __builtin_ia32_tilezero({number});" for _, _, number, _ in results]
    lines += ["    }", f"    for (ptrdiff_t k = 0; k < depth; k += {2 * TILE_ROWS}) {{"]
    kept = (-1, -1)
    for left, right in format.products(tile.a_parts):
        for j in wide if right != kept[1] else ():
            at = right * tile.b_part + j * tile.lanes * 2
            lines.append(f"        __builtin_ia32_tileloadd64({4 + j}, b + {at}, {4 * tile.b_k});")
        for i in tall:
            at = left * tile.a_part + i * TILE_ROWS * tile.a_row
            if left != kept[0]:
                lines.append(f"        __builtin_ia32_tileloadd64({6 + i}, a + {at}, {2 * tile.a_row});")
            lines += [f"        __builtin_ia32_tdpbf16ps({2 * i + j}, {6 + i}, {4 + j});" for j in wide]
        kept = left, right
    lines += [f"        a += {2 * TILE_ROWS * tile.a_k};", f"        b += {2 * TILE_ROWS * tile.b_k};", "    }"]
    lines += [f"    __builtin_ia32_tilestored64({number}, {place});" for _, _, number, place in results]
    return lines


_VECTORS = Unit(_vectors)
_TILES = Unit(
    _amx, AMX_SHAPE, "__builtin_ia32_tile_loadconfig(&tile_shape);", "__builtin_ia32_tilerelease();", AMX_DEPTH
)
