"""Options that commands of `pock` share, or that are too long to be read in a signature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="An ONNX model, opset 13 or newer; or a language model's folder (config.json, safetensors), with "
        "--dim sequence=TOKENS.",
    ),
]
TargetName = Annotated[str, typer.Option("--target", help="A device of `pock targets`.")]
Dims = Annotated[list[str] | None, typer.Option("--dim", metavar="NAME=VALUE", help="Size of a dynamic dimension.")]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Samples per step; default: the recipe's.")]
Memory = Annotated[
    str | None,
    typer.Option("--memory", metavar="SIZE", help="What the process may take, such as 64MiB; nodes run twice to fit."),
]
Compute = Annotated[
    str,
    typer.Option(
        "--compute", metavar="{f32|bf16|f16|tf32}", help="The format in which contractions multiply; sums are f32."
    ),
]
BackendName = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="{c|cuda|opencl|emulated|reference}",
        help="What makes the program; default: as the target needs it. C; CUDA or OpenCL for a GPU; "
        "for tests: GPU kernels on a processor, numpy's functions.",
    ),
]
Compare = Annotated[
    str | None,
    typer.Option(
        "--compare",
        metavar="A,B,…",
        help="Estimate these beside each other: full, head, bias, last4 (the last 4 parameters), NAME=RECIPE.yaml.",
    ),
]
ImportLosses = Annotated[
    bool,
    typer.Option("--import-losses", help="Import the Python functions that the recipe's losses name: they run here."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

RecipeFile = Annotated[Path, typer.Option("--recipe", metavar="R.yaml", help="Loss, optimizer and what to update.")]

VerifiedModel = Annotated[
    Path | None,
    typer.Argument(
        metavar="MODEL",
        help="An ONNX model, or a language model's folder; left out: what the factory makes.",
        show_default=False,
    ),
]
TorchFactory = Annotated[
    str | None,
    typer.Option(
        "--torch",
        metavar="MODULE:FACTORY",
        help="Python that makes the module, or (module, example arguments). It runs here.",
    ),
]
JaxFactory = Annotated[
    str | None,
    typer.Option(
        "--jax", metavar="MODULE:FACTORY", help="The same: it makes (function, parameters, example arguments)."
    ),
]
KerasFactory = Annotated[
    str | None,
    typer.Option(
        "--keras", metavar="MODULE:FACTORY", help="The same: it makes the model, or (model, example arguments)."
    ),
]
VerifiedData = Annotated[
    Path | None, typer.Option("--data", metavar="D.safetensors", help="Inputs and targets; default: random numbers.")
]
Fixed = Annotated[
    list[str] | None,
    typer.Option(
        "--fixed", metavar="NAME", help="An argument whose contents are part of the model, as for from_torch."
    ),
]
Functions = Annotated[
    str | None,
    typer.Option(
        "--functions",
        metavar="MODULE:MAPPING",
        help="Expressions for functions with a backward pass of their own, as for from_torch.",
    ),
]
VerifiedDump = Annotated[
    Path | None,
    typer.Option("--dump", metavar="DIR", help="Where they differ: the graph after each pass, the wrong kernel."),
]
