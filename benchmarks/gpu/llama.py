"""LLaMA-shaped models as a user brings them: a folder of configuration and safetensors shards."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import pockengine as pock
from pockengine.ir import Graph

_SHARD = 5_000_000_000
"""Bytes, as `save_pretrained` cuts."""


@dataclass(frozen=True)
class Shape:
    """Of a model; `title` is for readers."""

    title: str
    layers: int
    width: int
    hidden: int
    heads: int
    vocabulary: int


MODELS = {
    "7b": Shape("LLaMA-2-7B", 32, 4096, 11008, 32, 32000),
    "small": Shape("a LLaMA of 2 layers", 2, 256, 688, 4, 512),
}


def _config(shape: Shape) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(
        hidden_size=shape.width,
        intermediate_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        vocab_size=shape.vocabulary,
        use_cache=False,
        dtype="bfloat16",
        architectures=["LlamaForCausalLM"],
    )


def write_random_checkpoint(folder: Path, shape: Shape, device: str) -> Path:
    """A checkpoint of random weights, always the same on one device, which is there already or is drawn there."""
    from transformers import LlamaForCausalLM

    if not (folder / "config.json").exists():
        torch.manual_seed(0)
        with torch.device(device):
            module = LlamaForCausalLM(_config(shape)).to(torch.bfloat16)
        module.save_pretrained(folder.with_suffix(".part"), max_shard_size=_SHARD)
        folder.with_suffix(".part").rename(folder)
    return folder


def write_checkpoint(folder: Path, shape: Shape) -> Path:
    """A checkpoint whose weights are holes: zeros that take no disk."""
    from transformers import LlamaForCausalLM

    config = _config(shape)
    folder.mkdir(parents=True)
    config.save_pretrained(folder)
    with torch.device("meta"):
        tensors = list(LlamaForCausalLM(config).state_dict().items())
    shards: list[list[tuple[str, Tensor]]] = [[]]
    for name, tensor in tensors:
        if sum(2 * other.numel() for _, other in shards[-1]) + 2 * tensor.numel() > _SHARD:
            shards.append([])
        shards[-1].append((name, tensor))
    places: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = folder / f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        _write_holes(file, shard)
        places |= {name: file.name for name, _ in shard}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def _write_holes(file: Path, tensors: Sequence[tuple[str, Tensor]]) -> None:
    header, end = {}, 0
    for name, tensor in tensors:
        begin, end = end, end + 2 * tensor.numel()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as output:
        output.write(struct.pack("<Q", len(text)) + text)
        output.truncate(8 + len(text) + end)


def graph_of(checkpoint: Path, batch: int, tokens: int) -> Graph:
    """The model of a checkpoint, imported as the documentation says."""
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        module = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(checkpoint))
    return pock.from_checkpoint(module, checkpoint, (torch.zeros(batch, tokens, dtype=torch.int64),))
