"""Training steps of LLaMA-shaped language models for GPUs: how long they take to build here, what they are planned to
take there. Nothing is run, and the weights are holes: they take no disk.

    python -m benchmarks.gpu.language_models [--model 7b] [--step NAME ...] [--build NAME ...] [--write DOCUMENT]

`--build` also compiles steps, each cold and in a process of its own, whose time and memory it tells. Products are in
bf16; estimates are those of `benchmarks.gpu.estimates`: no kernel reaches the rates that they suppose.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.document import table, write_section
from benchmarks.gpu.cold_build import built
from benchmarks.gpu.llama import MODELS, Shape, graph_of, write_checkpoint
from benchmarks.gpu.roofline import Roofline
from pockengine import Recipe
from pockengine.codegen import backends
from pockengine.compile import Request, Scope, plan_programs
from pockengine.ir import Graph
from pockengine.targets import get

COMPUTE = "bf16"
HEAD = (
    "step",
    "target",
    "tokens",
    "kernels",
    "TFLOP",
    "GB moved",
    "estimate, ms",
    "tokens/s",
    "planned GB",
    "published",
)
BUILD_HEAD = ("cold build", "tokens", "seconds", "of a processor", "peak memory, MiB", "artifact, GB", "program, MiB")
SGD = {"name": "sgd", "lr": 1e-5}


@dataclass(frozen=True)
class Step:
    """One row.

    published  what PockEngine's paper (MICRO 2023) has for this step, on a Jetson AGX Orin"""

    name: str
    title: str
    recipe: Mapping[str, Any]
    target: str = "h200"
    batch: int = 2
    tokens: int = 2048
    published: str = ""

    def recipe_for(self, shape: Shape) -> Recipe:
        """The recipe; `last5` stands for attention and first FFN of the last 5 layers."""
        asked = dict(self.recipe)
        if asked.get("update") == "last5":
            asked["update"] = [
                {"params": f"model.layers.{layer}.{part}.*"}
                for layer in range(max(0, shape.layers - 5), shape.layers)
                for part in ("self_attn", "mlp.gate_proj")
            ]
        return Recipe(loss="causal_lm", batch=self.batch, **asked)


_SPARSE = {"optimizer": SGD, "update": "last5"}
_FULL = {"optimizer": SGD, "update": "full"}
_FULL_8 = {"optimizer": {"name": "adamw", "lr": 1e-5, "state": "int8"}, "update": "full"}
_LORA = {"optimizer": {"name": "adamw", "lr": 1e-4}, "lora": {"rank": 8, "params": ["*.q_proj", "*.v_proj"]}}
_INT4, _FP8 = {"frozen": {"weights": "int4"}}, {"frozen": {"weights": "fp8", "activations": "fp8"}}
_BF16 = {"trained": {"weights": "bf16"}}
_NORMS = {"optimizer": SGD, "update": [{"params": "*norm.weight"}]}
_ADAMW = {"optimizer": {"name": "adamw", "lr": 1e-5}, "update": "full"}
_SHORT: Mapping[str, Any] = {"batch": 1, "tokens": 512}
_ORIN: Mapping[str, Any] = {"target": "jetson-agx-orin", **_SHORT}

STEPS = {
    step.name: step
    for step in (
        Step("sparse", "sparse: attention, first FFN of the last 5 layers", _SPARSE),
        Step("sparse-short", "sparse", _SPARSE, **_SHORT),
        Step("sparse-bf16", "sparse, trained weights in bf16", {**_SPARSE, **_BF16}),
        Step("sparse-fp8", "sparse, the rest and what it multiplies in fp8", {**_SPARSE, **_FP8}),
        Step("norms", "norms alone (there are no biases)", _NORMS),
        Step("lora", "LoRA, r = 8, of queries and values, AdamW", _LORA),
        Step("lora-int4", "LoRA, the rest in int4", {**_LORA, **_INT4}),
        Step("full", "full, AdamW with 8-bit state", _FULL_8),
        Step("full-bf16", "full, weights in bf16, AdamW with 8-bit state", {**_FULL_8, **_BF16}),
        Step(
            "full-bf16-50",
            "full, weights in bf16, AdamW with 8-bit state, within 50 GB",
            {**_FULL_8, **_BF16, "memory": "50GB"},
        ),
        Step("full-offload", "full, AdamW, state offloaded", {**_ADAMW, "offload": "state"}),
        Step("sparse-4090", "sparse", _SPARSE, target="rtx-4090", **_SHORT),
        Step(
            "sparse-4090-offload",
            "sparse, frozen weights offloaded",
            {**_SPARSE, "offload": "frozen"},
            target="rtx-4090",
            **_SHORT,
        ),
        Step(
            "lora-4090-offload",
            "LoRA, as many frozen weights offloaded as 23 GiB need",
            {**_LORA, "offload": "frozen", "memory": "23GiB"},
            target="rtx-4090",
            batch=1,
        ),
        Step("sparse-orin", "sparse", _SPARSE, published="31.2 GB, 0.9 s", **_ORIN),
        Step("sparse-orin-int4", "sparse, the rest in int4", {**_SPARSE, **_INT4}, **_ORIN),
        Step("full-orin", "full, SGD", _FULL, published="43.1 GB, 1.8 s", **_ORIN),
    )
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="7b", choices=MODELS)
    parser.add_argument("--step", nargs="+", default=list(STEPS), choices=STEPS, metavar="NAME")
    parser.add_argument("--build", nargs="+", default=[], choices=STEPS, metavar="NAME", help="also compile these")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT")
    parser.add_argument("--checkpoint", type=Path, help=argparse.SUPPRESS)  # of the process that builds one step
    options = parser.parse_args(arguments)
    shape = MODELS[options.model]
    if options.checkpoint:
        (name,) = options.step
        print(json.dumps(_built(STEPS[name], shape, options.checkpoint)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = write_checkpoint(Path(folder) / "model", shape)
        builds = [_cold(name, options.model, checkpoint) for name in options.build]
        rows = _rows([STEPS[name] for name in options.step], shape, checkpoint)
    text = f"Estimates, not measurements: {shape.title}, weights in bf16, products in {COMPUTE}.\n\n{table(HEAD, rows)}"
    if builds:
        text += f"\n\n{table(BUILD_HEAD, builds)}"
    print(text)
    if options.write:
        write_section(options.write, "gpu-language-models", text)
    return 0


def _rows(steps: Sequence[Step], shape: Shape, checkpoint: Path) -> list[list[str]]:
    graphs: dict[tuple[int, int], Graph] = {}
    rows = []
    for step in steps:
        size = (step.batch, step.tokens)
        graph = graphs[size] = graphs.get(size) or graph_of(checkpoint, *size)
        rows.append(_row(step, graph, shape))
        print(table(HEAD, rows[-1:]), file=sys.stderr, flush=True)
    return rows


def _row(step: Step, graph: Graph, shape: Shape) -> list[str]:
    target = get(step.target).computing(COMPUTE)
    request = Request(graph, step.recipe_for(shape), target, backend=backends.of(target), scope=Scope.TRAINING)
    found = Roofline.of(plan_programs(request))
    return [
        step.title,
        f"`{step.target}`",
        f"{step.batch} x {step.tokens}",
        str(found.kernels),
        f"{found.flops / 1e12:.1f}",
        f"{found.moved / 1e9:.0f}",
        f"{1e3 * found.seconds:.0f}",
        f"{step.batch * step.tokens / found.seconds:.0f}",
        f"{found.peak / 1e9:.1f}",
        step.published,
    ]


def _built(step: Step, shape: Shape, checkpoint: Path) -> dict[str, float]:
    target = get(step.target).computing(COMPUTE)
    return built(checkpoint, (step.batch, step.tokens), step.recipe_for(shape), target)


def _built_alone(name: str, model: str, checkpoint: Path) -> dict[str, float]:
    """One step built in a process of its own, with nothing in its cache."""
    command = ["-m", "benchmarks.gpu.language_models", "--model", model, "--step", name, "--checkpoint", checkpoint]
    done = subprocess.run([sys.executable, *map(str, command)], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _cold(name: str, model: str, checkpoint: Path) -> list[str]:
    found, step = _built_alone(name, model, checkpoint), STEPS[name]
    return [
        step.title,
        f"{step.batch} x {step.tokens}",
        f"{found['seconds']:.0f}",
        f"{found['processor_seconds']:.0f}",
        f"{found['peak_bytes'] / 2**20:.0f}",
        f"{found['artifact_bytes'] / 1e9:.2f}",
        f"{found['program_bytes'] / 2**20:.1f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
