"""Commands and options of `pock`, and the one place where errors become a sentence and an exit code.

A command imports what it runs when it runs: all of them together take longer to import than some take to run.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PockError, nearest
from . import compiling
from .mounting import Commands, Entry
from .options import (
    BackendName,
    Batch,
    Compare,
    Compute,
    Dims,
    Fixed,
    Functions,
    ImportLosses,
    JaxFactory,
    Json,
    KerasFactory,
    Memory,
    Model,
    RecipeFile,
    TargetName,
    TorchFactory,
    VerifiedData,
    VerifiedDump,
    VerifiedModel,
)
from .searching import search_command
from .text import data_app

DIFFERS, BAD_INPUT, IO_FAILED = 1, 2, 4

app = typer.Typer(
    name="pock",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"pock {version('pockengine')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Compile a fine-tuning step into a native program for one device, and run it here or on a fleet."""


@app.command("compile")
def compile_command(
    model: Model,
    recipe: RecipeFile,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT.pock", help="The artifact to write.")],
    target: TargetName = "host",
    batch: Batch = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Default: the target's cores.")] = None,
    dim: Dims = None,
    name: Annotated[str | None, typer.Option("--name", help="The artifact's name; default: the model's.")] = None,
    json: Json = False,
    dump: Annotated[Path | None, typer.Option("--dump", metavar="DIR", help="Write the graph after each pass.")] = None,
    memory: Memory = None,
    tune: Annotated[
        str,
        typer.Option(
            "--tune", metavar="{off|known|fast|full}", help="Measure how contractions are best computed here."
        ),
    ] = "off",
    tuning: Annotated[
        Path | None,
        typer.Option("--tuning", metavar="T.jsonl", help="Take what `pock tuning export` wrote, not the cache's."),
    ] = None,
    compute: Compute = "f32",
    backend: BackendName = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what was fused, in place, folded, and why.")] = False,
    import_losses: ImportLosses = False,
) -> None:
    """Compile a model and a recipe into an artifact for one target."""
    request = compiling.CompileRequest(
        model,
        recipe,
        output,
        target,
        batch,
        threads,
        compiling.parse_dims(dim or []),
        name,
        dump,
        compiling.parse_memory(memory),
        tune,
        explain,
        compute,
        import_losses,
        backend,
        tuning,
    )
    compiling.compile_model(request, as_json=json)


@app.command("check")
def check_command(
    model: Model,
    recipe: Annotated[
        Path | None, typer.Option("--recipe", metavar="R.yaml", help="Also estimate this recipe.")
    ] = None,
    target: TargetName = "host",
    batch: Batch = None,
    dim: Dims = None,
    memory: Memory = None,
    backend: BackendName = None,
    compare: Compare = None,
    json: Json = False,
    import_losses: ImportLosses = False,
) -> None:
    """Say which operators are supported, what the layers are, and what training would take. Compiles nothing."""
    sizes, allowed = compiling.parse_dims(dim or []), compiling.parse_memory(memory)
    others = compiling.parse_compare(compare)
    request = compiling.CheckRequest(model, recipe, target, batch, sizes, allowed, import_losses, backend, others)
    if others:
        compiling.compare_model(request, as_json=json)
    elif not compiling.check_model(request, as_json=json):
        raise typer.Exit(BAD_INPUT)


@app.command("verify")
def verify_command(
    recipe: RecipeFile,
    model: VerifiedModel = None,
    torch: TorchFactory = None,
    jax: JaxFactory = None,
    keras: KerasFactory = None,
    steps: Annotated[int, typer.Option("--steps", min=1, max=100, help="Training steps.")] = 3,
    data: VerifiedData = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the random numbers.")] = 0,
    batch: Batch = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Default: the machine's cores.")] = None,
    dim: Dims = None,
    fixed: Fixed = None,
    functions: Functions = None,
    dump: VerifiedDump = None,
    json: Json = False,
    import_losses: ImportLosses = False,
) -> None:
    """Train a few steps here and in PyTorch, JAX or Keras and compare losses, gradients and every tensor; exit code 1
    if they differ.

    Without --torch an ONNX model's outputs are compared with another runtime of ONNX and its gradients with finite
    differences."""
    from . import verifying

    dims = compiling.parse_dims(dim or [])
    request = verifying.VerifyRequest(
        model,
        recipe,
        torch,
        jax,
        keras,
        steps,
        data,
        seed,
        batch,
        threads,
        dims,
        fixed or (),
        functions,
        import_losses,
        dump,
    )
    if not verifying.verify_model(request, as_json=json):
        raise typer.Exit(DIFFERS)


@app.command(
    "run",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def run_command(
    context: typer.Context,
    artifact: Annotated[
        Path | None, typer.Argument(metavar="OUT.pock", help="An artifact made by `pock compile`.", show_default=False)
    ] = None,
    entry: Annotated[
        str | None,
        typer.Argument(metavar="ENTRY", help="train, eval, predict, bench, generate or info.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the program's events, one JSON object a line.")] = False,
    help: Annotated[bool, typer.Option("--help", help="Show this message, or after an entry its options.")] = False,
) -> None:
    """Run an artifact's program; every further option goes to it (docs/reference/binary.md).

    If the first argument is no artifact, builds run on devices of a service: pock run BUILD --help."""
    from . import running

    if help and entry is None:
        print(context.get_help())
        return
    if artifact is None or entry is None:
        raise PockError("say which artifact to run, and what of it: pock run OUT.pock train --data D.safetensors …")
    if entry not in list(Entry):
        raise PockError(f"an artifact has no entry '{entry}'{nearest(entry, Entry)}")
    arguments = [*context.args, "--help"] if help else context.args
    raise typer.Exit(running.run_model(artifact, entry, arguments, as_json=json))


@app.command("export")
def export_command(
    artifact: Annotated[Path, typer.Argument(metavar="OUT.pock", help="An artifact made by `pock compile`.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")],
    weights: Annotated[
        Path | None, typer.Option("--weights", metavar="W.safetensors", help="What `pock run … train --save` wrote.")
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", metavar="{safetensors|onnx}", help="Default: by the file's ending.")
    ] = None,
    merge: Annotated[bool, typer.Option("--merge", help="Add the adapters of `lora` to their weights.")] = False,
    adapters: Annotated[bool, typer.Option("--adapters", help="Only the adapters of `lora`.")] = False,
    json: Json = False,
) -> None:
    """Write a fine-tuned model as safetensors or as ONNX."""
    from . import exporting

    request = exporting.ExportRequest(artifact, output, format, weights, merge, adapters)
    exporting.export_model(request, as_json=json)


@app.command("profile")
def profile_command(
    artifact: Annotated[Path, typer.Argument(metavar="OUT.pock", help="An artifact made by `pock compile`.")],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="D.safetensors", help="A dataset; default: made-up numbers.")
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps to measure.")] = 20,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Default: as compiled.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="TRACE.json", help="Also write a step in the trace-event format.")
    ] = None,
    json: Json = False,
) -> None:
    """Say where the time of a step goes: each kernel's time, operations, bytes and part of this machine's peak."""
    from . import profiling

    profiling.profile_model(profiling.ProfileRequest(artifact, data, steps, threads, trace), as_json=json)


@app.command("tune")
def tune_command(
    model: Model,
    recipe: RecipeFile,
    target: TargetName = "host",
    batch: Batch = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Default: the target's cores.")] = None,
    dim: Dims = None,
    mode: Annotated[str, typer.Option("--mode", metavar="{fast|full}", help="How many candidates are run.")] = "full",
    compute: Compute = "f32",
    backend: BackendName = None,
    json: Json = False,
    import_losses: ImportLosses = False,
) -> None:
    """Measure a model's contractions on this machine, for later `pock compile --tune` to use. Builds no artifact."""
    from . import tuning

    dims = compiling.parse_dims(dim or [])
    request = tuning.TuneRequest(model, recipe, target, batch, threads, dims, mode, compute, import_losses, backend)
    tuning.tune_model(request, as_json=json)


app.command("search")(search_command)
app.add_typer(data_app)


@app.command("cache")
def cache_command(
    action: Annotated[str, typer.Argument(metavar="{show|clear|prune}")] = "show",
    keep_days: Annotated[
        float | None, typer.Option("--keep-days", min=0, help="With prune: keep what was used in the last N days.")
    ] = None,
    json: Json = False,
) -> None:
    """Show or shrink the cache of compiled kernels, unpacked artifacts and tuning results."""
    from . import caching

    caching.manage_cache(action, keep_days, as_json=json)


@app.command("targets")
def targets_command(json: Json = False) -> None:
    """List the devices the compiler builds for. `host` uses no instruction beyond those of `POCK_HOST_CPU` (such as
    x86-64-v3), where that is set."""
    from . import console

    console.show_targets(as_json=json)


@app.command(
    "serve",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def serve_command(context: typer.Context) -> None:
    """Start the service with its dashboard; options go to `pock-server serve`."""
    if importlib.util.find_spec("pock_server") is None:
        raise PockError("the service is not installed: pip install pock-server")
    program = Path(sys.executable).with_name("pock-server")
    os.execv(program, [str(program), "serve", *context.args])  # in place of this process: who ends it ends the service


def main() -> None:
    """Entry point of `pock`: bad input is one sentence on stderr and exit code 2, a failing disk 4."""
    gc.disable()  # graphs hold no cycles, and looking for them takes an eighth of the time
    try:
        code = app(standalone_mode=False)
    except PockError as error:
        code = _fail(str(error), BAD_INPUT)
    except typer.TyperException as error:
        code = _fail(error.format_message(), BAD_INPUT)
    except typer.Abort:
        code = 130
    except OSError as error:
        place = f" '{error.filename}'" if error.filename else ""
        code = _fail(f"cannot read or write{place}: {error.strerror or error}", IO_FAILED)
    sys.stdout.flush()
    # A reader that has gone away (`pock … | head`) must not turn into a traceback while the interpreter exits.
    os._exit(code) if sys.stdout.closed else sys.exit(code)


def _fail(message: str, code: int) -> int:
    text = " ".join(message.split()).rstrip(".")
    print(f"pock: {text}", file=sys.stderr)
    return code
