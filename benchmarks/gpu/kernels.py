"""Single kernels beside those of NVIDIA's libraries, in turns: products beside cuBLASLt, attention beside cuDNN, by
PyTorch. The last line is a JSON object.

    python -m benchmarks.gpu.kernels products|attention TARGET [--seconds N]

The target `here` is the dry form: small sizes, on this processor, through a driver that emulates.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.gpu.checks import HERE
from benchmarks.gpu.rows import KERNELS
from benchmarks.turns import Contender, medians_of
from pockengine.codegen import backends
from pockengine.ir import Builder, DType, Node, RegionKind, TensorType, Value
from pockengine.ops import Emitter
from pockengine.plan.program import Lowered
from pockengine.targets import Target, get
from tests.compiler.codegen.cuda.driver import here
from tests.compiler.codegen.cuda.library import Kernels

REPEATS, ROUNDS = 20, 5
"""Launches of a step, so that starting one costs little beside it; and turns."""
_DTYPES = {DType.F32: torch.float32, DType.BF16: torch.bfloat16}


@dataclass(frozen=True)
class Pair:
    """A node of ours, and what PyTorch computes of the same inputs: its results in the order of the node's."""

    name: str
    node: Node
    peer: Callable[..., Sequence[Tensor]]


def products(dry: bool) -> list[Pair]:
    """Those of LLaMA-2-7B at 4,096 tokens and of BERT-base at 32 x 128, forward and both gradients."""
    layers: tuple[tuple[str, int, tuple[tuple[int, int], ...]], ...] = (
        ("7 B", 4096, ((4096, 4096), (11008, 4096), (4096, 11008), (32000, 4096))),
        ("BERT", 4096, ((768, 768), (3072, 768))),
    )
    if dry:
        layers = (("small", 48, ((40, 32),)),)
    found = []
    for model, tokens, weights in layers:
        for out, width in weights:
            for part, rows, columns, terms, turns in (
                ("forward", tokens, out, width, (False, True)),
                ("of x", tokens, width, out, (False, False)),
                ("of w", out, width, tokens, (True, False)),
            ):
                title = f"{model}, {out} x {width}, {part}"
                found.append(Pair(title, _product(rows, columns, terms, *turns), _torch_product(*turns)))
    return found


def _product(m: int, n: int, k: int, trans_a: bool, trans_b: bool) -> Node:
    builder = Builder("body")
    e = Emitter(builder)
    x = builder.input("x", TensorType(DType.BF16, (k, m) if trans_a else (m, k)))
    w = builder.input("w", TensorType(DType.BF16, (n, k) if trans_b else (k, n)))
    wide = (e.cast(value, DType.F32) for value in (x, w))
    builder.outputs = {"y": e.cast(e.op("matmul", *wide, trans_a=trans_a, trans_b=trans_b), DType.BF16)}
    body = builder.finish()
    outputs = (Value("result", TensorType(DType.BF16, (m, n))),)
    return Node("region", body.inputs, outputs, {"kind": RegionKind.CONTRACTION}, body)


def _torch_product(trans_a: bool, trans_b: bool) -> Callable[..., Sequence[Tensor]]:
    return lambda x, w: (torch.matmul(x.T if trans_a else x, w.T if trans_b else w),)


def attention(dry: bool) -> list[Pair]:
    """That of LLaMA-2-7B at 2 x 2,048 tokens, and of BERT-base at 32 x 128."""
    sizes = (("7 B", (2, 32, 2048, 128), True), ("BERT", (32, 12, 128, 64), False))
    found = []
    for model, shape, causal in (("small", (1, 2, 80, 32), True),) if dry else sizes:
        forward, backward = _attention(shape, causal)
        found.append(Pair(f"{model}, forward", forward, _torch_attention(causal)))
        found.append(Pair(f"{model}, backward", backward, _torch_gradient(causal)))
    return found


def _attention(shape: tuple[int, ...], causal: bool) -> tuple[Node, Node]:
    def values(*names: str) -> tuple[Value, ...]:
        return tuple(Value(name, TensorType(DType.BF16, shape)) for name in names)

    attrs = {"scale": shape[-1] ** -0.5, "causal": causal, "stores": ("bf16",)}
    levels = Value("levels", TensorType(DType.F32, (*shape[:3], 2)))
    forward = Node("attention", values(*"qkv"), (*values("y"), levels), attrs)
    read = (*forward.inputs, *forward.outputs, *values("dy"))
    return forward, Node("attention_backward", read, values("dq", "dk", "dv"), {**attrs, "stores": ("bf16",) * 3})


def _torch_attention(causal: bool) -> Callable[..., Sequence[Tensor]]:
    return lambda q, k, v: (F.scaled_dot_product_attention(q, k, v, is_causal=causal),)


def _torch_gradient(causal: bool) -> Callable[..., Sequence[Tensor]]:
    """The forward pass is made once, of the first inputs: its graph is kept."""
    kept: list[tuple[list[Tensor], Tensor]] = []

    def run(q: Tensor, k: Tensor, v: Tensor, y: Tensor, levels: Tensor, dy: Tensor) -> Sequence[Tensor]:
        if not kept:
            read = [one.detach().requires_grad_() for one in (q, k, v)]
            kept.append((read, F.scaled_dot_product_attention(read[0], read[1], read[2], is_causal=causal)))
        read, result = kept[0]
        return torch.autograd.grad(result, read, dy, retain_graph=True)

    return run


def pairs_of(what: str, dry: bool) -> list[Pair]:
    """What is measured: `products` or `attention`."""
    return products(dry) if what == "products" else attention(dry)


def measure(pairs: Sequence[Pair], target: Target, device: str, seconds: float) -> list[dict[str, Any]]:
    """For each pair: both times in milliseconds, and the largest difference of results in parts of the largest number;
    or `error`."""
    ends, backend = time.monotonic() + seconds, backends.get("cuda")
    lowered = {pair.name: backend.lower(pair.node, target, 1) for pair in pairs}
    if device != "cpu":
        torch.zeros(1, device=device)
    kernels = Kernels([call for one in lowered.values() for call in one.calls], target)
    found = []
    for pair in pairs:
        if time.monotonic() > ends:
            found.append({"name": pair.name, "error": "no time was left"})
            continue
        found.append({"name": pair.name, **_measured(pair, lowered[pair.name], kernels, device)})
    return found


def _measured(pair: Pair, lowered: Lowered, kernels: Kernels, device: str) -> dict[str, Any]:
    torch.manual_seed(0)
    node = pair.node
    places = {value: _tensor(value, device) for value in (*node.inputs, *node.outputs)}
    if node.op == "attention_backward":
        _fill_levels(node, places)
    scratch = torch.empty(max(1, lowered.workspace_bytes), dtype=torch.uint8, device=device)
    repeats = 1 if device == "cpu" else REPEATS
    given = [places[value] for value in node.inputs]

    def ours() -> float:
        for _ in range(repeats):
            for call in lowered.calls:
                read = [places[value].data_ptr() for value in call.operands]
                kernels.start(call, [*read, *(scratch.data_ptr() + at for at in call.workspace)])
        kernels.wait()
        return 0.0

    def theirs() -> float:
        for _ in range(repeats):
            pair.peer(*given)
        if device != "cpu":
            torch.cuda.synchronize()
        return 0.0

    ours()
    wanted = pair.peer(*given)
    apart = max(
        float((places[value].float() - one.float()).abs().max() / one.float().abs().max())
        for value, one in zip(node.outputs, wanted, strict=False)
    )
    times = medians_of([Contender("ours", ours), Contender("peer", theirs)], 1 if device == "cpu" else ROUNDS)
    return {"ms": times["ours"] / repeats, "peer_ms": times["peer"] / repeats, "apart": apart}


def _tensor(value: Value, device: str) -> Tensor:
    drawn = torch.randn(value.type.shape, device=device) / 4
    return drawn.to(_DTYPES[value.type.dtype])


def _fill_levels(node: Node, places: Mapping[Value, Tensor]) -> None:
    """The result and the levels that the forward kernel would have saved."""
    q, k, v = (places[value].float() for value in node.inputs[:3])
    scores = q @ k.transpose(2, 3) * node.attrs["scale"]
    if node.attrs["causal"]:
        later = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    top = scores.amax(-1)
    places[node.inputs[4]].copy_(torch.stack([top, scores.logsumexp(-1) - top], -1))
    places[node.inputs[3]].copy_(scores.softmax(-1) @ v)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=KERNELS)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=float, default=120)
    options = parser.parse_args()
    dry = options.target == HERE
    target = (here() if dry else get(options.target)).computing("bf16")
    pairs = pairs_of(options.what, dry)
    libraries = [SDPBackend.MATH] if dry else [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]
    with sdpa_kernel(libraries, set_priority=True):
        rows = measure(pairs, target, "cpu" if dry else "cuda", options.seconds)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
