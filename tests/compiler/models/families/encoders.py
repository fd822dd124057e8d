"""Encoders of text, from `transformers` configurations, each with a head of the kind it is known for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForTokenClassification,
    ElectraConfig,
    ElectraForPreTraining,
    RobertaConfig,
    RobertaForMaskedLM,
    T5Config,
    T5ForTokenClassification,
)

from ..family import Family, Outputs, classes, settle, tokens

BATCH, TIME = 2, 12
VOCABULARY = 96
CLASSES = 3
INPUTS = tokens(VOCABULARY, BATCH, TIME)
SIZES = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
TEXT: dict[str, Any] = {"vocab_size": VOCABULARY, "max_position_embeddings": 16, "initializer_range": 0.1}


def _settled(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return settle(make(), INPUTS)

    return build


def _bert() -> nn.Module:
    return BertForSequenceClassification(BertConfig(**SIZES, **TEXT, num_labels=CLASSES))


def _albert() -> nn.Module:
    return AlbertForSequenceClassification(AlbertConfig(**SIZES, **TEXT, embedding_size=16, num_labels=CLASSES))


def _distilbert() -> nn.Module:
    config = DistilBertConfig(dim=32, n_layers=2, n_heads=2, hidden_dim=64, **TEXT, num_labels=CLASSES)
    return DistilBertForTokenClassification(config)


def _roberta() -> nn.Module:
    return RobertaForMaskedLM(RobertaConfig(**SIZES, **TEXT, pad_token_id=0))


def _electra() -> nn.Module:
    return ElectraForPreTraining(ElectraConfig(**SIZES, **TEXT, embedding_size=16))


def _t5() -> nn.Module:
    config = T5Config(
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        vocab_size=VOCABULARY,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=10,
        num_labels=CLASSES,
    )
    return T5ForTokenClassification(config)


def _hidden_words(seed: int) -> dict[str, torch.Tensor]:
    """About half of the tokens are to be guessed; the labels of the others do not count."""
    guessed = classes(2, BATCH, TIME)(seed)["labels"] == 1
    return {"labels": classes(VOCABULARY, BATCH, TIME)(seed)["labels"].masked_fill(~guessed, -100)}


def _replaced_words(seed: int) -> dict[str, torch.Tensor]:
    """Whether each token was replaced, as 0.0 or 1.0."""
    labels = classes(2, BATCH, TIME)(seed)["labels"].float()
    return {"labels": labels, "attention_mask": INPUTS(seed)["attention_mask"]}


def _replaced_loss(outputs: Outputs, targets: Outputs) -> torch.Tensor:
    """As ElectraForPreTraining computes it."""
    active = targets["attention_mask"] == 1
    return functional.binary_cross_entropy_with_logits(outputs["logits"][active], targets["labels"][active])


def _classifier(name: str, make: Callable[[], nn.Module], sparse: Any, lora: str) -> Family:
    return Family(name, _settled(make), INPUTS, classes(CLASSES, BATCH), sparse, lora)


FAMILIES = (
    _classifier(
        "bert",
        _bert,
        [{"params": "classifier.*"}, {"params": "bert.encoder.layer.1.*.dense.weight", "channels": 0.5}],
        lora="*attention*",
    ),
    _classifier(
        "albert",
        _albert,
        [{"params": "classifier.*"}, {"params": "*.ffn*.weight", "channels": 0.5}, {"params": "*.bias", "last": 4}],
        lora="*.attention.*",
    ),
    Family(
        "distilbert",
        _settled(_distilbert),
        INPUTS,
        classes(CLASSES, BATCH, TIME),
        [{"params": "classifier.*"}, {"params": "*.layer.1.*lin?.weight", "channels": 0.5}, {"params": "*.1.*.bias"}],
        "*.[qv]_lin",
    ),
    Family(
        "roberta",
        _settled(_roberta),
        INPUTS,
        _hidden_words,
        [
            {"params": "lm_head.dense.*"},
            {"params": "*.layer.1.*.dense.weight", "channels": 8},
            {"params": "*.1.*.bias"},
        ],
        "*.self.query",
    ),
    Family(
        "electra",
        _settled(_electra),
        INPUTS,
        _replaced_words,
        {"params": "*", "last_blocks": 1},
        "*.attention.*",
        {"name": "bce_with_logits", "mask": "attention_mask"},
        _replaced_loss,
    ),
    Family(
        "t5_encoder",
        _settled(_t5),
        INPUTS,
        classes(CLASSES, BATCH, TIME),
        [
            {"params": "classifier.*"},
            {"params": "*relative_attention_bias*"},
            {"params": "*.w[io].weight", "channels": 0.5},
        ],
        "*.SelfAttention.?",
    ),
)
