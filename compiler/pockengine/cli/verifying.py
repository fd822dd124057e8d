"""`pock verify`: a model's training against the user's own framework, shown and as an exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from ..errors import ModelError, PockError
from ..frontends import load, pretrained
from ..recipe import Recipe
from ..recipe.named import import_named
from ..verify import Options, Report, Verdict, verify, verify_file
from . import console
from .progress import progress

_COLOURS = {Verdict.SAME: "green", Verdict.ROUNDING: "cyan", Verdict.DIFFERENT: "red"}


@dataclass(frozen=True)
class VerifyRequest:
    """The options of `pock verify`."""

    model: Path | None
    recipe: Path
    torch: str | None
    jax: str | None
    keras: str | None
    steps: int
    data: Path | None
    seed: int
    batch: int | None
    threads: int | None
    dims: Mapping[str, int]
    fixed: Sequence[str] = ()
    functions: str | None = None
    import_losses: bool = False
    dump: Path | None = None


def verify_model(request: VerifyRequest, *, as_json: bool) -> bool:
    """Print the report; returns whether both sides agree. Raises PockError where they cannot be compared."""
    _refuse_unclear(request)
    recipe = Recipe.load(request.recipe, request.import_losses)
    batch = request.batch if request.batch is not None else recipe.batch
    with progress() as report:
        options = Options(request.steps, request.data, request.seed, request.threads, request.dump, report)
        report("import", 0, 1)
        if request.model is not None:
            graph = load(request.model, request.dims, batch)
            made = _module(request.torch) if request.torch else _of_folder(request.model, request.dims, batch)
            found = verify_file(request.model, graph, recipe.with_batch(batch), options, made)
        elif request.torch:
            module, args, kwargs = _module(request.torch)
            rules = _rules(request.functions) if request.functions else None
            found = verify(module, args, recipe, kwargs, functions=rules, fixed=request.fixed, **vars(options))
        elif request.jax:
            function, params, args = _function(request.jax)
            found = verify(function, args, recipe, params=params, **vars(options))
        else:
            assert request.keras is not None
            model, args = _pair(_called(request.keras, "--keras", ()))
            found = verify(_keras(request.keras, model), args, recipe.with_batch(batch), **vars(options))
    if as_json:
        print(json.dumps(found.to_mapping()))
    else:
        show(found)
    return found.agrees


def _refuse_unclear(request: VerifyRequest) -> None:
    frameworks = [request.torch, request.jax, request.keras]
    given = sum(name is not None for name in frameworks)
    if request.model is None and not given:
        raise PockError(
            "say what to verify: an ONNX model, or with module:factory a PyTorch module (--torch), a JAX function "
            "(--jax) or a Keras model (--keras)"
        )
    if given > 1:
        raise PockError("one model is verified at a time: give one of --torch, --jax and --keras")
    if request.model is not None and (request.jax or request.keras):
        raise PockError(
            "an ONNX file is compared with a PyTorch module (--torch): leave the file out, and the model is imported "
            "as it is"
        )
    if request.model is not None and (request.fixed or request.functions):
        raise PockError(
            "--fixed and --functions say how to import a module, and a file is imported already: leave it out"
        )
    if request.torch is None and (request.fixed or request.functions):
        raise PockError("--fixed and --functions are for PyTorch modules alone: leave them out")


def _called(name: str, option: str, instances: type | tuple[type, ...]) -> Any:
    """What a factory makes, or the very thing where the name is that of one."""
    factory = import_named(name, Path.cwd(), option, "factory")
    return factory if isinstance(factory, instances) else factory()


def _pair(made: Any) -> tuple[Any, Any]:
    """A model and its example arguments, if there are any."""
    return made if isinstance(made, tuple) and len(made) == 2 else (made, ())


def _module(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The module that a factory makes, and its example arguments: by position where it gives a tuple, by name where it
    gives a mapping."""
    try:
        from torch import nn
    except ImportError:
        raise ModelError("--torch needs PyTorch: pip install 'pockengine[torch]'") from None
    module, given = _pair(_called(name, "--torch", nn.Module))
    if not isinstance(module, nn.Module):
        raise ModelError(f"'{name}' makes {type(module).__name__}, and it has to make a module, or (module, arguments)")
    if isinstance(given, Mapping):
        return module, (), dict(given)
    return module, given if isinstance(given, tuple) else (given,), {}


def _of_folder(
    path: Path, dims: Mapping[str, int], batch: int | None
) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """The module of a language model's folder with its weights, and its example inputs; None of a file."""
    if not path.is_dir():
        return None
    found = pretrained(path, dims, batch)
    return found.loaded(), (), dict(found.inputs)


def _function(name: str) -> tuple[Any, Any, Any]:
    """The function that a factory makes, its parameters and its example arguments."""
    made = _called(name, "--jax", ())
    if not (isinstance(made, tuple) and len(made) == 3 and callable(made[0])):
        raise ModelError(f"'{name}' makes {type(made).__name__}, and it has to make (function, parameters, arguments)")
    return made


def _keras(name: str, model: Any) -> Any:
    try:
        import keras
    except ImportError:
        raise ModelError("--keras needs TensorFlow and tf2onnx: pip install 'pockengine[keras]'") from None
    if not isinstance(model, keras.Model):
        raise ModelError(f"'{name}' makes {type(model).__name__}, and it has to make a model, or (model, arguments)")
    return model


def _rules(name: str) -> Mapping[Any, Any]:
    """What stands in for functions with a backward pass of their own: see `from_torch`."""
    found = import_named(name, Path.cwd(), "--functions", "mapping")
    if not isinstance(found, Mapping):
        raise ModelError(
            f"'{name}' is {type(found).__name__}, and --functions takes a mapping, as in {{Reversed: lambda x: -x}}"
        )
    return found


def show(report: Report) -> None:
    """A table of losses, one of tensors, and the sentence."""
    out = console.wide()
    losses = Table("step", "loss", f"loss by {report.against}", "verdict", box=None)
    for index, (ours, theirs, verdict) in enumerate(report.losses):
        losses.add_row(str(index + 1), f"{ours:.7g}", f"{theirs:.7g}", _coloured(verdict))
    out.print(losses)
    tensors = Table("tensor", "gradient off by", "", "changed by", "theirs", "off by", "", box=None)
    gradients = {gradient.name: gradient for gradient in report.gradients}
    for change in report.changes:
        gradient = gradients.get(change.name)
        first = (f"{gradient.error:.1e}", _coloured(gradient.verdict)) if gradient else ("", "")
        last = (f"{change.error:.1e}", _coloured(change.verdict))
        tensors.add_row(change.name, *first, f"{change.ours:.3e}", f"{change.theirs:.3e}", *last)
    out.print(tensors)
    for note in report.notes:
        out.print(f"note: {note}", markup=False)
    out.print(report.sentence(), markup=False)


def _coloured(verdict: Verdict) -> str:
    return f"[{_COLOURS[verdict]}]{verdict.value}[/]"
