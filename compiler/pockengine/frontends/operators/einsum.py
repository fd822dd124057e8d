"""Einstein summation over any number of operands, as transposed and batched matrix products."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ...errors import ModelError
from ...ir import Value
from ...ops import Emitter
from .registry import NodeContext, Operand, converts

_SPARE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@converts("Einsum")
def einsum(c: NodeContext) -> Sequence[Operand]:
    """Operands are contracted one after the other, letters summed as soon as nothing else needs them."""
    operands = [c.value(index) for index in range(len(c.operands))]
    terms, result = _parse(c, str(c.attr("equation", "")), [value.type.rank for value in operands])
    sizes: dict[str, int] = {}
    for term, value in zip(terms, operands, strict=True):
        for letter, size in zip(term, value.type.shape, strict=True):
            if 1 not in (size, sizes.get(letter, 1)) and sizes[letter] != size:
                raise ModelError(f"{c.where} gives '{letter}' two sizes, {sizes[letter]} and {size}")
            sizes[letter] = max(size, sizes.get(letter, 1))
    value, letters = operands[0], terms[0]
    value, letters = _reduced(c.e, value, letters, set("".join((*terms[1:], result))))
    for index, (other, term) in enumerate(zip(operands[1:], terms[1:], strict=True), 2):
        later = set("".join((*terms[index:], result)))
        other, term = _reduced(c.e, other, term, set(letters) | later)
        value, letters = _reduced(c.e, value, letters, set(term) | later)
        value, letters = _product(c.e, (value, letters), (other, term), later)
    value = c.e.transpose(value, [letters.index(letter) for letter in result])
    return [c.e.broadcast_to(value, [sizes[letter] for letter in result])]


def _parse(c: NodeContext, equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, `...` written out in letters not used otherwise."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ModelError(f"{c.where} has {len(ranks)} operands, its equation '{equation}' has {len(terms)}")
    if not arrow:
        counts = Counter(letter for letter in left if letter.isalpha())
        right = ("..." if "..." in left else "") + "".join(sorted(k for k, n in counts.items() if n == 1))
    spare = [letter for letter in _SPARE if letter not in equation]
    hidden = [
        rank - len(term.replace("...", "")) if "..." in term else 0 for term, rank in zip(terms, ranks, strict=True)
    ]
    dots = "".join(spare[: max(hidden)])
    written = [term.replace("...", dots[len(dots) - n :]) for term, n in zip(terms, hidden, strict=True)]
    if any(len(term) != rank for term, rank in zip(written, ranks, strict=True)) or not set(
        right.replace("...", "")
    ) <= set(left):
        raise ModelError(f"{c.where}: the equation '{equation}' does not fit its operands")
    return written, right.replace("...", dots)


def _reduced(e: Emitter, x: Value, letters: str, kept: set[str]) -> tuple[Value, str]:
    """Diagonals of repeated letters taken, and letters summed that are not `kept`."""
    for letter in [letter for letter, count in Counter(letters).items() if count > 1]:
        while letters.count(letter) > 1:
            x, letters = _diagonal(e, x, letters, letter)
    axes = [axis for axis, letter in enumerate(letters) if letter not in kept]
    return e.sum(x, axes, keepdims=False), "".join(letter for letter in letters if letter in kept)


def _diagonal(e: Emitter, x: Value, letters: str, letter: str) -> tuple[Value, str]:
    """The first two axes called `letter` become one, in front."""
    first = letters.index(letter)
    second = letters.index(letter, first + 1)
    rest = [axis for axis in range(len(letters)) if axis not in (first, second)]
    size = x.type.shape[first]
    moved = e.transpose(x, (first, second, *rest))
    flat = e.reshape(moved, (size * size, *moved.type.shape[2:]))
    taken = e.op("gather", flat, e.const(np.arange(size) * (size + 1)), axis=0)
    return taken, letter + "".join(letters[axis] for axis in rest)


def _product(e: Emitter, left: tuple[Value, str], right: tuple[Value, str], kept: set[str]) -> tuple[Value, str]:
    """One matrix product; letters of both that are not `kept` are summed."""
    (a, first), (b, second) = left, right
    a, b = _same_sizes(e, a, first, second, b), _same_sizes(e, b, second, first, a)
    sizes = dict(zip(first, a.type.shape, strict=True)) | dict(zip(second, b.type.shape, strict=True))
    batch = [letter for letter in first if letter in second and letter in kept]
    summed = [letter for letter in first if letter in second and letter not in kept]
    rows = [letter for letter in first if letter not in second]
    columns = [letter for letter in second if letter not in first]
    order = [*batch, *rows, *columns]
    lead = [sizes[letter] for letter in batch]
    m, k, n = (math.prod(sizes[letter] for letter in group) for group in (rows, summed, columns))
    a = e.transpose(a, [first.index(i) for i in (*batch, *rows, *summed)])
    b = e.transpose(b, [second.index(i) for i in (*batch, *summed, *columns)])
    if summed or (rows and columns):
        product = e.matmul(e.reshape(a, (*lead, m, k)), e.reshape(b, (*lead, k, n)))
    else:  # nothing is summed and one operand only scales the other
        product = e.mul(e.reshape(a, (*lead, m, 1)), e.reshape(b, (*lead, 1, n)))
    return e.reshape(product, [sizes[letter] for letter in order]), "".join(order)


def _same_sizes(e: Emitter, x: Value, letters: str, others: str, other: Value) -> Value:
    """An axis of size 1 spread to what the other operand has there."""
    sizes = dict(zip(others, other.type.shape, strict=True))
    return e.broadcast_to(
        x, [max(size, sizes.get(letter, 1)) for letter, size in zip(letters, x.type.shape, strict=True)]
    )
