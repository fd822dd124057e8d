"""PyTorch, eager and compiled with its default backend, in float32 or under autocast to bfloat16. SGD is its fused
implementation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from benchmarks.peers.case import Case
from benchmarks.peers.torch_models import build as build_model
from benchmarks.peers.torch_models import logits_of
from benchmarks.peers.training import Training
from benchmarks.workloads import LEARNING_RATE, MOMENTUM, Array


def build(case: Case, variant: str, threads: int) -> Training:
    torch.set_num_threads(threads)
    model = _model(case)
    names = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    optimizer = torch.optim.SGD(names.values(), lr=LEARNING_RATE, momentum=MOMENTUM, fused=True)
    masked = [(names[name], torch.from_numpy(mask)) for name, mask in case.masks(_arrays(names)).items()]
    feed = {name: torch.from_numpy(array) for name, array in case.feed().items()}
    inputs, labels = feed[case.workload.model.input_name], feed["labels"]
    forward: Callable[..., Tensor] = _causal if case.workload.model.loss == "causal_lm" else _classification
    if "bf16" in variant:
        forward = partial(_autocast, forward)
    if "compile" in variant:
        forward = torch.compile(forward)

    def step() -> float:
        optimizer.zero_grad()
        loss = forward(model, inputs, labels)
        torch.autograd.backward(loss)
        for parameter, mask in masked:
            assert parameter.grad is not None
            parameter.grad.mul_(mask)
        optimizer.step()
        return float(loss.detach())

    return Training(step, sum(p.numel() for p in names.values()))


def matrix_product_rate(threads: int, side: int = 2048, tries: int = 8) -> float:
    """The best rate, in FLOP/s, at which PyTorch multiplies square float32 matrices here."""
    import time

    torch.set_num_threads(threads)
    left, right = torch.randn(side, side), torch.randn(side, side)
    torch.mm(left, right)
    best = float("inf")
    for _ in range(tries):
        start = time.perf_counter()
        torch.mm(left, right)
        best = min(best, time.perf_counter() - start)
    return 2 * side**3 / best


def _model(case: Case) -> nn.Module:
    model = build_model(case.workload.model)
    model.load_state_dict(load_file(case.weights_file))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in case.trained)
    return model


def _arrays(parameters: dict[str, nn.Parameter]) -> dict[str, Array]:
    return {name: parameter.detach().numpy() for name, parameter in parameters.items()}


def _autocast(forward: Callable[..., Tensor], model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return forward(model, inputs, labels)


def _classification(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits_of(model, inputs), labels)


def _causal(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    logits = logits_of(model, inputs)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
