"""Causal language models, from `transformers` configurations, trained to predict the next token of their input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)
from transformers.loss.loss_utils import ForCausalLMLoss

from ..family import Family, Outputs, settle, tokens

VOCABULARY = 96
WINDOW = 5
"""Tokens that sliding attention sees; fewer than there are."""
INPUTS = tokens(VOCABULARY, batch=2, length=12)
LOSS = {"name": "causal_lm", "target": "input_ids", "mask": "attention_mask"}
GENERAL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 16,
    "use_cache": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GROUPED: dict[str, Any] = {
    **GENERAL,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.1,
}
"""Two heads of queries for each of keys and values."""


def _causal_lm(outputs: Outputs, targets: Outputs) -> torch.Tensor:
    """The loss of `transformers`, with padding among the labels as its collators mark it."""
    labels = targets["input_ids"].masked_fill(targets["attention_mask"] == 0, -100)
    return ForCausalLMLoss(outputs["logits"], labels, VOCABULARY)


def _causal(name: str, make: Callable[[], nn.Module], sparse: Any, lora: str = "*.self_attn.?_proj") -> Family:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return settle(make(), INPUTS)

    return Family(name, build, INPUTS, INPUTS, sparse, lora, LOSS, _causal_lm)


def _gpt2() -> nn.Module:
    return GPT2LMHeadModel(GPT2Config(**GENERAL, n_embd=32, n_layer=2, n_head=2, initializer_range=0.1))


def _opt() -> nn.Module:
    config = OPTConfig(
        **GENERAL, hidden_size=32, word_embed_proj_dim=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=2
    )
    return OPTForCausalLM(config)


def _llama() -> nn.Module:
    return LlamaForCausalLM(LlamaConfig(**GROUPED))


def _qwen2() -> nn.Module:
    return Qwen2ForCausalLM(Qwen2Config(**GROUPED))


def _mistral() -> nn.Module:
    return MistralForCausalLM(MistralConfig(**GROUPED, sliding_window=WINDOW))


def _gemma() -> nn.Module:
    return GemmaForCausalLM(GemmaConfig(**GROUPED, head_dim=8))


def _gemma2() -> nn.Module:
    config = Gemma2Config(**GROUPED, head_dim=8, query_pre_attn_scalar=8, sliding_window=WINDOW)
    return Gemma2ForCausalLM(config)


def _gemma3() -> nn.Module:
    layers = ["sliding_attention", "full_attention"]
    config = Gemma3TextConfig(**GROUPED, head_dim=8, query_pre_attn_scalar=8, sliding_window=WINDOW, layer_types=layers)
    return Gemma3ForCausalLM(config)


def _mixtral() -> nn.Module:
    """Each expert is computed for all tokens."""
    return MixtralForCausalLM(MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2))


def _qwen3_moe() -> nn.Module:
    """More experts than choices, 24 tokens with one expert each: the chosen experts' weights are gathered."""
    config = Qwen3MoeConfig(
        **GROUPED, head_dim=8, moe_intermediate_size=8, num_experts=32, num_experts_per_tok=1, norm_topk_prob=False
    )
    return Qwen3MoeForCausalLM(config)


LAST_BLOCK = {"params": "*.layers.1.*"}

FAMILIES = (
    _causal(
        "gpt2",
        _gpt2,
        [{"params": "*.h.1.mlp.*.weight", "channels": 0.5}, {"params": "*bias"}],
        lora="*.c_attn",
    ),
    _causal("opt", _opt, [LAST_BLOCK, {"params": "*bias"}]),
    _causal("llama", _llama, [{"params": "lm_head.*"}, {"params": "*.1.mlp.*.weight", "channels": 0.5}]),
    _causal("qwen2", _qwen2, [LAST_BLOCK, {"params": "*bias"}], lora="*.self_attn.[qv]_proj"),
    _causal("mistral", _mistral, [{"params": "*.1.self_attn.*.weight", "channels": 8}, {"params": "*norm.weight"}]),
    _causal("gemma", _gemma, LAST_BLOCK),
    _causal("gemma2", _gemma2, [{"params": "*.1.*_proj.weight", "channels": 0.5}, {"params": "*norm.weight"}]),
    _causal("mixtral", _mixtral, [LAST_BLOCK, {"params": "*.mlp.gate.weight"}]),
    _causal("qwen3-moe", _qwen3_moe, LAST_BLOCK),
    _causal("gemma3", _gemma3, LAST_BLOCK, lora="*_proj"),
)
