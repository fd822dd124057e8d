"""The toy model as an artifact, for any target."""

from __future__ import annotations

from pathlib import Path

from pockengine.artifact import Artifact, EntryPoints, InputInfo, Manifest, PortInfo, TensorInfo
from pockengine.codegen.native import toolchain
from pockengine.targets import Target
from tests.compiler.runtime.toy import Toy

TOY = Toy()


def make(folder: Path, target: Target) -> Artifact:
    """Compiles the toy into `folder` and packs it."""
    TOY.build(folder, target, library=True)
    library = f"bin/{toolchain.library_name(target)}"
    names = ["bin/model", library, "params.safetensors", "consts.safetensors"]
    members = {name: (folder / name).read_bytes() for name in names}
    members |= {"bin/model.h": toolchain.library_header().encode(), "graph.txt": b"toy\n"}
    return Artifact.create(_manifest(target, library), members, {"cache_hits": 3})


def _manifest(target: Target, library: str) -> Manifest:
    params = TOY.params()
    tensors = [
        TensorInfo(name, "f32", value.shape, value.nbytes, "param", "frozen" if name == "scale" else "all")
        for name, value in params.items()
    ]
    weight = params["fc.weight"]
    tensors.append(TensorInfo("fc.weight.velocity", "f32", weight.shape, weight.nbytes, "state", "all"))
    return Manifest(
        name="toy",
        created_by={"pockengine": "0.1.0", "zig": toolchain.zig_version()},
        target=target.to_dict(),
        recipe={"loss": "cross_entropy"},
        threads=4,
        summary={"arena_bytes": TOY.space_bytes()["arena"]},
        programs={},
        tensors=tuple(tensors),
        inputs=(
            InputInfo("input", "f32", (TOY.batch, TOY.features), False, False),
            InputInfo("labels", "i64", (TOY.batch,), True, False),
        ),
        outputs=(PortInfo("logits", "f32", (TOY.batch, TOY.classes)),),
        entry_points=EntryPoints(library=library),
    )
