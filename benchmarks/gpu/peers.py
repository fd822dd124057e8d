"""PyTorch's steps on a GPU: eager and compiled in its modes, in bf16, images in its channels-last order, frozen
parameters without gradients, its fused optimizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.gpu.rows import Row
from benchmarks.peers.torch_models import build as build_model
from benchmarks.peers.torch_models import logits_of
from benchmarks.workloads import LEARNING_RATE, MOMENTUM
from pockengine.recipe import matches

MODES = ("eager", "default", "reduce-overhead", "max-autotune")
PRECISIONS = ("autocast", "bf16", "f32")
"""Products alone in bf16; everything in bf16; nothing, which is for the losses."""


@dataclass(frozen=True)
class Peer:
    """`step` runs one training step to its end, and returns its loss; `reserved` is what it made torch take at most, in
    bytes, 0 on a processor."""

    name: str
    step: Callable[[], float]
    reserved: int


def build(row: Row, weights: dict[str, Tensor], mode: str, precision: str, device: str) -> Peer:
    """A peer that has run three steps."""
    before = empty(device)
    model, feed = build_model(row.family), row.family.feed(batch=row.batch)
    model.load_state_dict(weights)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    inputs, labels = (torch.from_numpy(feed[name]).to(device) for name in (row.family.input_name, "labels"))
    model.to(device, dtype)
    if inputs.ndim == 4:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        inputs = inputs.to(dtype=dtype, memory_format=torch.channels_last)
    step = _step_of(row, model, inputs, labels, mode, precision == "autocast")
    for _ in range(3):
        step()
    return Peer(f"{mode}, {precision}", step, most(device) - before)


def _step_of(
    row: Row, model: nn.Module, inputs: Tensor, labels: Tensor, mode: str, autocast: bool
) -> Callable[[], float]:
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(matches(str(rule["params"]), name) for rule in row.update))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=LEARNING_RATE, momentum=MOMENTUM, fused=True)

    def forward(inputs: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=autocast):
            return F.cross_entropy(logits_of(model, inputs).float(), labels)

    run: Callable[[Tensor, Tensor], Tensor] = forward if mode == "eager" else torch.compile(forward, mode=mode)

    def step() -> float:
        optimizer.zero_grad()
        loss = run(inputs, labels)
        torch.autograd.backward(loss)
        optimizer.step()
        return float(loss.detach())

    return step


def empty(device: str) -> int:
    """Bytes that torch has reserved, once it has given back what it can."""
    if device == "cpu":
        return 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_reserved()


def most(device: str) -> int:
    """The most that torch had reserved since then."""
    return 0 if device == "cpu" else torch.cuda.max_memory_reserved()
