"""Language models, from `transformers` configurations."""

from __future__ import annotations

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from ..family import Family, classes, settle, tokens

BATCH = 2
VOCABULARY = 128


def _bert() -> nn.Module:
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        vocab_size=VOCABULARY,
        max_position_embeddings=32,
        num_labels=3,
    )
    return settle(BertForSequenceClassification(config), tokens(VOCABULARY))


FAMILIES = (
    Family(
        "bert",
        _bert,
        tokens(VOCABULARY),
        classes(3, BATCH),
        [{"params": "classifier.*"}, {"params": "bert.encoder.layer.1.*.dense.weight", "channels": 0.5}],
        lora="*attention*",
    ),
)
