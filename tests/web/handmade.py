"""A small artifact made by hand after docs/reference/binary.md, with a memory plan whose numbers are easy to check.

`LAYERS` layers in a chain: a forward node each, then from the last to the first a backward node and an update. Layer i
keeps its activation from its forward to its backward node; gradients of neighbours alternate between two places.
"""

import hashlib
import io
import json
import zipfile
from typing import Any

LAYERS = 16
ACTIVATION_BYTES = 64 * 1024
GRADIENT_BYTES = 32 * 1024
WORKSPACE_BYTES = 24 * 1024
PREDICTED_PEAK_BYTES = 3_600_000


def backward_node(layer: int) -> int:
    """Index of the layer's backward node; its update follows it."""
    return LAYERS + 2 * (LAYERS - 1 - layer)


def nodes() -> list[dict[str, Any]]:
    """The train program's nodes in order. Layer i costs i + 1 million operations forward, twice that backward."""
    forward = [_node(f"layers.{i}.conv", "conv2d", (i + 1) * 1_000_000, "forward") for i in range(LAYERS)]
    rest = []
    for i in reversed(range(LAYERS)):
        rest.append(_node(f"layers.{i}.conv.backward", "conv2d_weight_gradient", (i + 1) * 2_000_000, "backward"))
        rest.append(_node(f"layers.{i}.conv.update", "sgd", 1_000, "update"))
    return [{"index": index, **node} for index, node in enumerate(forward + rest)]


def _node(name: str, op: str, flops: int, phase: str) -> dict[str, Any]:
    return {"name": name, "op": op, "kernel": f"k_{op}", "flops": flops, "bytes": 4 * ACTIVATION_BYTES, "phase": phase}


def slots() -> list[dict[str, Any]]:
    """The train program's slots; no two that are alive together overlap."""
    found = []
    for i in range(LAYERS):
        last = backward_node(i)
        found.append(_slot(f"activation_{i}", i * ACTIVATION_BYTES, ACTIVATION_BYTES, i, last, "activation"))
    top = LAYERS * ACTIVATION_BYTES
    for i in reversed(range(LAYERS)):
        born = backward_node(i)
        offset = top + (i % 2) * GRADIENT_BYTES
        found.append(_slot(f"gradient_{i}", offset, GRADIENT_BYTES, born, min(born + 2, 3 * LAYERS - 1), "gradient"))
        place = top + 2 * GRADIENT_BYTES
        found.append(_slot(f"packed_{i}", place, WORKSPACE_BYTES, born, born, "workspace"))
    return found


def _slot(value: str, offset: int, nbytes: int, first: int, last: int, kind: str) -> dict[str, Any]:
    return {"value": value, "offset": offset, "nbytes": nbytes, "first": first, "last": last, "kind": kind}


def alive_at(node: int) -> list[dict[str, Any]]:
    """Slots alive at a node, counted one by one."""
    return [slot for slot in slots() if slot["first"] <= node <= slot["last"]]


def live_bytes() -> list[int]:
    """Live bytes at every node."""
    return [sum(slot["nbytes"] for slot in alive_at(node)) for node in range(3 * LAYERS)]


def summary() -> dict[str, Any]:
    """The manifest's summary."""
    return {
        "arena_bytes": max(slot["offset"] + slot["nbytes"] for slot in slots()),
        "lower_bound_bytes": max(live_bytes()),
        "param_bytes": 2_300_000,
        "state_bytes": 46_000,
        "const_bytes": 0,
        "input_bytes": 98_304,
        "predicted_peak_bytes": PREDICTED_PEAK_BYTES,
        "nodes_forward": LAYERS,
        "nodes_backward_dense": 4 * LAYERS,
        "nodes_backward": 2 * LAYERS,
        "kernels": 3,
        "flops": {"forward": 136_000_000, "backward": 272_016_000},
        "trained_parameters": 11_500,
    }


def manifest(name: str, target: str, recipe: dict[str, Any], members: dict[str, bytes]) -> dict[str, Any]:
    """`manifest.json` for these members."""
    plan = {key: summary()[key] for key in ("arena_bytes", "lower_bound_bytes")}
    forward = nodes()[:LAYERS]
    kept = [slot for slot in slots() if slot["kind"] == "activation"]
    inference = [{**slot, "last": slot["first"] + 1} for slot in kept[:-1]]
    return {
        "format": 3,
        "name": name,
        "created_by": {"pockengine": "0.1.0", "zig": "0.17.0"},
        "target": {"name": target, "triple": "x86_64-linux-musl", "cpu": "native"},
        "recipe": recipe,
        "threads": 2,
        "summary": summary(),
        "members": {
            path: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for path, data in members.items()
        },
        "programs": {
            "train": {**plan, "nodes": nodes(), "slots": slots()},
            "eval": {"arena_bytes": 2 * ACTIVATION_BYTES, "lower_bound_bytes": 2 * ACTIVATION_BYTES,
                     "nodes": forward, "slots": inference},
            "predict": {},
        },
        "tensors": [_tensor(i) for i in range(LAYERS)],
        "inputs": [
            {"name": "input", "dtype": "f32", "shape": [8, 3, 32, 32], "target": False, "optional": False},
            {"name": "labels", "dtype": "i64", "shape": [8], "target": True, "optional": False},
        ],
        "outputs": [{"name": "logits", "dtype": "f32", "shape": [8, 10]}],
        "entry_points": {"executable": "bin/model", "library": "bin/libmodel.so", "header": "bin/model.h"},
    }  # fmt: skip


def _tensor(layer: int) -> dict[str, Any]:
    trained = "frozen" if layer < LAYERS - 4 else "channels" if layer < LAYERS - 1 else "all"
    return {
        "name": f"layers.{layer}.conv.weight",
        "dtype": "f32",
        "shape": [32, 32, 3, 3],
        "nbytes": 36_864,
        "role": "param",
        "trained": trained,
        "channels": [0, 3, 5, 7] if trained == "channels" else None,
    }


def pack(name: str, target: str, recipe: dict[str, Any]) -> tuple[bytes, dict[str, bytes]]:
    """The artifact's bytes, and its members including the manifest."""
    members = {
        "bin/model": b"#!/bin/sh\nexit 1\n",
        "graph.txt": b"graph train {}\n",
        "params.safetensors": b"\2" + bytes(7) + b"{}",
    }
    members["manifest.json"] = json.dumps(manifest(name, target, recipe, members), sort_keys=True).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(members):
            archive.writestr(zipfile.ZipInfo(path), members[path])
    return buffer.getvalue(), members
