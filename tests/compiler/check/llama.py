"""An ONNX file of LLaMA-2-7B's size whose weights are not there: exported from tensors without contents."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import onnx
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import LlamaConfig, LlamaForCausalLM


def write(path: Path, layers: int, hidden: int, inner: int, heads: int, vocabulary: int, time: int) -> int:
    """Write `path` without its weights; returns the number of parameters."""
    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        vocab_size=vocabulary,
        use_cache=False,
    )
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with FakeTensorMode(allow_non_fake_inputs=True):
                module = LlamaForCausalLM(config).eval()
                program = torch.export.export(module, (torch.ones(1, time, dtype=torch.int64),), strict=False)
            exported = torch.onnx.export(
                program, dynamo=True, optimize=False, opset_version=23, output_names=["logits"], verbose=False
            )
    finally:
        logging.disable(logging.NOTSET)
    assert exported is not None
    exported.save(path, include_initializers=False)
    proto = onnx.load(path, load_external_data=False)
    known = {name for node in proto.graph.node for name in node.output} | {value.name for value in proto.graph.input}
    wanted = {name for node in proto.graph.node for name in node.input if name} - known
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    offset = 0
    for name in sorted(wanted):
        tensor = proto.graph.initializer.add(name=name, data_type=onnx.TensorProto.FLOAT, dims=tensors[name].shape)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        nbytes = tensors[name].numel() * 4
        for key, text in (("location", f"{path.name}.data"), ("offset", str(offset)), ("length", str(nbytes))):
            tensor.external_data.add(key=key, value=text)
        offset += nbytes
    onnx.save(proto, path)
    return sum(parameter.numel() for parameter in module.parameters())
