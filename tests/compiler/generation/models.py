"""Small causal language models of many families, and some that are none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from torch import nn

VOCABULARY, TIME = 61, 12

_COMMON = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 32,
    "use_cache": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
_WIDE = {**_COMMON, "intermediate_size": 40}
_GROUPED = {**_WIDE, "num_key_value_heads": 2, "head_dim": 8}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY, "n_positions": 32, "use_cache": False}
_WINDOWS = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}

CAUSAL: Mapping[str, tuple[str, Mapping[str, Any], tuple[int, ...]]] = {
    "GPT2": ("GPT2LMHead", _GPT2, (1, 4, TIME, 8)),
    "Qwen3": ("Qwen3ForCausalLM", _GROUPED, (1, 2, 1, TIME, 8)),
    "Gemma2": ("Gemma2ForCausalLM", {**_GROUPED, **_WINDOWS}, (1, 2, 1, TIME, 8)),
    "GPTNeoX": ("GPTNeoXForCausalLM", _WIDE, (1, 4, TIME, 8)),
    "Falcon": ("FalconForCausalLM", _COMMON, (1, 1, 1, TIME, 8)),
}
"""Family -> its class, its sizes, and the shape of each cache: that of keys before they are repeated for queries."""

OTHER: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "Bert": ("BertForMaskedLM", _WIDE, "the scores at a token depend on the tokens that follow it"),
    "Mamba": ("MambaForCausalLM", {**_COMMON, "state_size": 4}, "in which tokens meet in attention alone"),
}
"""What is refused, and why."""


def made(family: str, name: str, sizes: Mapping[str, Any]) -> nn.Module:
    """A model with random weights."""
    name = name if "For" in name else f"{name}Model"
    torch.manual_seed(1)
    own = {"fused_add_norm"} if family == "Mamba" else set()
    config = getattr(transformers, f"{family}Config")(**{key: value for key, value in sizes.items() if key not in own})
    model: nn.Module = getattr(transformers, name)(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model
