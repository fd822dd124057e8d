"""The peers by name: which environment and which module runs each."""

from __future__ import annotations

from dataclasses import dataclass

OURS = "pockengine"


@dataclass(frozen=True)
class Peer:
    """`environment` names requirements-NAME.txt, None being the project's own; `module` of this package has
    `build(case, variant, threads)`."""

    name: str
    title: str
    environment: str | None
    module: str
    variant: str = ""


PEERS = {
    peer.name: peer
    for peer in (
        Peer("pytorch", "PyTorch", "pytorch", "pytorch_peer"),
        Peer("torch.compile", "`torch.compile`", "pytorch", "pytorch_peer", "compile"),
        Peer("tensorflow", "TensorFlow", "tensorflow", "tensorflow_peer"),
        Peer("tensorflow-xla", "TensorFlow XLA", "tensorflow", "tensorflow_peer", "xla"),
        Peer("jax", "JAX", "jax", "jax_peer"),
        Peer("onnxruntime", "ONNX Runtime", "onnxruntime", "onnxruntime_peer"),
        Peer(OURS, "PockEngine", None, "our_peer"),
    )
}
