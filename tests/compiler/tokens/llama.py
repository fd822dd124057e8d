"""A small LLaMA with grouped queries, its packed datasets, and the artifacts that train it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import pockengine as pock
from pockengine.ir import Array, Graph
from pockengine.tokens import Documents, Layout, read_documents

VOCABULARY, TIME, BATCH = 61, 24, 2
INPUTS = ("input_ids", "position_ids")
LAYOUT = Layout(TIME, VOCABULARY, INPUTS)


@cache
def module() -> LlamaForCausalLM:
    """Random weights, large enough that the likeliest token depends on all before it. Not to be trained: copy it."""
    torch.manual_seed(3)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=64,
        initializer_range=0.2,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


def graph_of(model: torch.nn.Module, inputs: tuple[str, ...] = INPUTS, batch: int = BATCH) -> Graph:
    """A causal language model imported for sequences of TIME tokens."""
    example = {name: torch.arange(TIME).expand(batch, TIME).clone() for name in inputs}
    if "attention_mask" in example:
        example["attention_mask"] = torch.ones(batch, TIME, dtype=torch.int64)
    return pock.from_torch(model, kwargs=example)


@cache
def graph() -> Graph:
    """The small LLaMA with positions of its own."""
    return graph_of(module())


def documents(folder: Path, seed: int = 0, count: int = 14) -> Documents:
    """Random prompts and answers."""
    rng = np.random.default_rng(seed)
    lines = [
        f'{{"prompt": {rng.integers(0, VOCABULARY, rng.integers(1, 8)).tolist()}, '
        f'"answer": {rng.integers(0, VOCABULARY, rng.integers(1, 8)).tolist()}}}'
        for _ in range(count)
    ]
    file = folder / "documents.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return read_documents([file], VOCABULARY)


def as_torch(batch: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    """A batch for the module."""
    return {name: torch.from_numpy(np.asarray(array)) for name, array in batch.items()}


def recipe(update: Any = "full", **more: Any) -> pock.Recipe:
    """Plain descent, so that equal gradients give equal losses."""
    return pock.Recipe(loss="causal_lm", optimizer={"name": "sgd", "lr": 0.2}, update=update, **more)
