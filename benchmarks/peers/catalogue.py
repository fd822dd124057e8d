"""The peers by name: which environment and which module runs each."""

from __future__ import annotations

from dataclasses import dataclass

OURS = "pockengine"


@dataclass(frozen=True)
class Peer:
    """`environment` names requirements-NAME.txt, None being the project's own; `module` of this package has
    `build(case, variant, threads)`; `compute` is the format of its products."""

    name: str
    title: str
    environment: str | None
    module: str
    variant: str = ""
    compute: str = "f32"


PEERS = {
    peer.name: peer
    for peer in (
        Peer("pytorch", "PyTorch", "pytorch", "pytorch_peer"),
        Peer("torch.compile", "`torch.compile`", "pytorch", "pytorch_peer", "compile"),
        Peer("tensorflow", "TensorFlow", "tensorflow", "tensorflow_peer"),
        Peer("tensorflow-xla", "TensorFlow XLA", "tensorflow", "tensorflow_peer", "xla"),
        Peer("jax", "JAX", "jax", "jax_peer"),
        Peer("onnxruntime", "ONNX Runtime", "onnxruntime", "onnxruntime_peer"),
        Peer("pytorch-bf16", "PyTorch, autocast", "pytorch", "pytorch_peer", "bf16", "bf16"),
        Peer("torch.compile-bf16", "`torch.compile`, autocast", "pytorch", "pytorch_peer", "compile bf16", "bf16"),
        Peer("tensorflow-bf16", "TensorFlow, mixed_bfloat16", "tensorflow", "tensorflow_peer", "bf16", "bf16"),
        Peer(
            "tensorflow-xla-bf16", "TensorFlow XLA, mixed_bfloat16", "tensorflow", "tensorflow_peer", "xla bf16", "bf16"
        ),
        Peer("jax-bf16", "JAX, bf16", "jax", "jax_peer", "bf16", "bf16"),
        Peer(OURS, "PockEngine", None, "our_peer"),
    )
}


def competing(compute: str) -> tuple[str, ...]:
    """Who takes part where our contractions multiply in a format: peers in f32, and in this format; we are the last."""
    return tuple(name for name, peer in PEERS.items() if peer.compute in ("f32", compute))
