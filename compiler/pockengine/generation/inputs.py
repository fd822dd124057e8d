"""The inputs of language models by the names that transformers gives them, each i64 [batch, time]."""

from __future__ import annotations

import numpy as np

from ..ir import Array, TensorType

IDS, POSITIONS, MASK, NUMBERS = "input_ids", "position_ids", "attention_mask", "document_ids"
INPUTS = (IDS, POSITIONS, MASK, NUMBERS)
"""Token ids; the position in the document; 1, and 0 for padding; the document's number in its sequence from 1 on, and 0
for padding."""


def of_one_document(name: str, type: TensorType) -> Array | None:
    """What an input holds where one document fills the sequence; None for token ids and inputs of other names."""
    if name not in (POSITIONS, MASK, NUMBERS) or type.rank != 2:
        return None
    contents = np.arange(type.shape[1]) if name == POSITIONS else np.ones(1)
    return np.broadcast_to(contents, type.shape).astype(type.dtype.numpy)
