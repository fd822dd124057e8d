"""Documents packed into sequences of one length: the dataset of a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..codegen.files import write_whole
from ..errors import DataError
from ..generation.inputs import IDS, MASK, NUMBERS, POSITIONS
from ..ir import Array
from ..tensors import Tensors
from .documents import Documents
from .layout import Layout
from .packing import Long, packed, pieces_of


@dataclass(frozen=True)
class Statistics:
    """Of a dataset: what it is made of.

    sequences   samples, each of `length` tokens
    documents   those in it
    left_out    documents, or pieces of long ones, of which no token would be learned
    cut         documents longer than a sequence
    left_off    tokens of those behind the cut that are in no piece (`Long.CUT`)
    tokens      without padding
    padding     share of all positions
    learned     share of the tokens that count in the loss
    apart       whether the model is told where documents begin; else a document sees those before it in its sequence"""

    sequences: int
    length: int
    documents: int
    left_out: int
    cut: int
    left_off: int
    tokens: int
    padding: float
    learned: float
    apart: bool

    def to_mapping(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class TokenDataset:
    """Tensors by name, each i64 [sequences, length], and what they are made of."""

    tensors: Mapping[str, Array]
    statistics: Statistics

    def save(self, path: str | Path) -> None:
        """Writes the safetensors file, whole or not at all. Raises OSError."""
        write_whole(Path(path), Tensors(self.tensors).chunks())


@dataclass(frozen=True)
class Contents:
    """How documents come into sequences.

    seed      of the order of sequences, and of which documents share one
    together  several documents may share a sequence; else each has its own
    padding   the token id of positions that hold none
    long      what becomes of documents longer than a sequence"""

    seed: int = 0
    together: bool = True
    padding: int = 0
    long: Long = Long.SPLIT


def token_dataset(documents: Documents, layout: Layout, contents: Contents | None = None) -> TokenDataset:
    """Packs documents. Labels are `layout.ignored` for prompts, padding, and the first token of each piece, which
    nothing in its own document comes before. Raises DataError where nothing is left to learn."""
    contents = contents or Contents()
    if not 0 <= contents.padding < layout.vocabulary:
        raise DataError(f"the padding {contents.padding} is not in the vocabulary of 0 to {layout.vocabulary - 1}")
    pieces = pieces_of(documents.starts, layout.length, contents.long)
    kept = pieces[[bool(documents.learned[begin + 1 : end].any()) for begin, end in pieces]]
    if not len(kept):
        within = f" within the {layout.length} tokens of a sequence" if contents.long is Long.CUT else ""
        raise DataError(f"no document has a token to be learned{within}: an answer, or a text of two tokens")
    lengths = [int(one) for one in kept[:, 1] - kept[:, 0]]
    alone = [[at] for at in np.random.default_rng(contents.seed).permutation(len(kept))]
    sequences = packed(lengths, layout.length, contents.seed) if contents.together else alone
    filled = _filled(documents, layout, [kept[numbers] for numbers in sequences], contents.padding)
    learned = filled[layout.labels] != layout.ignored
    tokens, positions = sum(lengths), len(sequences) * layout.length
    statistics = Statistics(
        sequences=len(sequences),
        length=layout.length,
        documents=len(np.unique(np.searchsorted(documents.starts, kept[:, 0], side="right"))),
        left_out=len(pieces) - len(kept),
        cut=int((np.diff(documents.starts) > layout.length).sum()),
        left_off=len(documents.ids) - int((pieces[:, 1] - pieces[:, 0]).sum()),
        tokens=tokens,
        padding=round(1 - tokens / positions, 6),
        learned=round(int(learned.sum()) / tokens, 6),
        apart=layout.apart or not contents.together,
    )
    return TokenDataset({name: filled[name] for name in (*layout.inputs, layout.labels)}, statistics)


def _filled(documents: Documents, layout: Layout, sequences: Sequence[Array], padding: int) -> dict[str, Array]:
    """All tensors that there can be, each [sequences, length]."""
    shape = len(sequences), layout.length
    ids, labels = np.full(shape, padding, np.int64), np.full(shape, layout.ignored, np.int64)
    positions, numbers = np.empty(shape, np.int64), np.zeros(shape, np.int64)
    for row, pieces in enumerate(sequences):
        at = 0
        for number, (begin, end) in enumerate(pieces, 1):
            here = slice(at, at + int(end - begin))
            ids[row, here], numbers[row, here] = documents.ids[begin:end], number
            positions[row, here] = np.arange(end - begin)
            learned = documents.learned[begin + 1 : end]
            follows = slice(at, here.stop - 1) if layout.ahead else slice(at + 1, here.stop)
            labels[row, follows] = np.where(learned, documents.ids[begin + 1 : end], layout.ignored)
            at = here.stop
        positions[row, at:] = np.arange(layout.length - at)  # padding is a document of its own
    mask = (numbers > 0).astype(np.int64)
    return {IDS: ids, POSITIONS: positions, NUMBERS: numbers, MASK: mask, layout.labels: labels}
