"""The first stage: the recipe is applied to the model, and each parameter has its part in the training."""

from __future__ import annotations

from dataclasses import dataclass

from ..autodiff import Quantised, narrowed, widened, with_adapters, with_quantised, without_dropout
from ..errors import RecipeError
from ..ir import Graph
from ..passes import NOTHING, optimise
from ..recipe import Recipe, Scheme, Trained
from ..recipe import resolve as resolve_scheme
from .request import Request


@dataclass(frozen=True, eq=False)
class Resolved:
    """A request whose recipe is applied to its model.

    recipe      bound to the model: losses and optimizer have all their fields
    model       what is trained: the imported model with adapters, in f32, its weights stored as the recipe says
    unstored    the same before that, where all of `everything` is trained
    scheme      what is trained of each parameter
    everything  the same where all is trained that the loss depends on
    quantised   how the quantised weights are stored"""

    request: Request
    recipe: Recipe
    model: Graph
    unstored: Graph
    scheme: Scheme
    everything: Scheme
    quantised: tuple[Quantised, ...]

    @property
    def threads(self) -> int:
        """The most threads that kernels use."""
        return self.request.threads or self.request.target.cores


def resolve(request: Request) -> Resolved:
    """Apply the recipe to the model. Raises RecipeError."""
    request.progress("resolve", 0, 1)
    _check_offload(request)
    _check_trained(request)
    recipe = request.recipe.bound(request.model)
    lora, imported = recipe.lora, request.model
    adapted = (
        imported if lora is None else request.common(("adapted", imported, lora), lambda: with_adapters(imported, lora))
    )
    scheme, everything = resolve_scheme(recipe, adapted), resolve_scheme(recipe.with_(update="full"), adapted)
    prepared = ("prepared", adapted, recipe.dropout, request.passes.preparing)
    plain = request.common(prepared, lambda: _prepared(request, adapted, recipe.dropout))
    stored = request.backend.limits(request.target).stored
    key = ("widened", plain, everything.trained(), stored)
    unstored, model = request.common(key, lambda: widened(plain, everything, stored)), widened(plain, scheme, stored)
    if recipe.trained is not None:
        model = _narrowed(request, model, recipe.trained, scheme)
    quantised: tuple[Quantised, ...] = ()
    if recipe.frozen is not None:
        model, quantised = with_quantised(model, recipe.frozen, scheme)
    request.progress("resolve", 1, 1)
    return Resolved(request, recipe, model, unstored, scheme, everything, quantised)


def _check_offload(request: Request) -> None:
    backend, target, asked = request.backend, request.target, request.recipe.offload.what
    if asked and not backend.limits(target).offloads:
        raise RecipeError(
            f"'offload: {', '.join(asked)}' needs a GPU with memory of its own, beside its host's: the backend "
            f"'{backend.name}' has one memory for all on '{target.name}': leave 'offload' out"
        )


def _check_trained(request: Request) -> None:
    backend, target, asked = request.backend, request.target, request.recipe.trained
    if asked and asked.dtype not in backend.limits(target).trained:
        raise RecipeError(
            f"the backend '{backend.name}' trains no weights in {asked.weights}: leave 'trained' out, or choose "
            "another with --backend"
        )


def _narrowed(request: Request, model: Graph, trained: Trained, scheme: Scheme) -> Graph:
    key = ("narrowed", model, trained, scheme.trained())
    return request.common(key, lambda: narrowed(model, trained, scheme))


def _prepared(request: Request, adapted: Graph, dropout: bool) -> Graph:
    """The model as gradients are built of it."""
    plain = adapted if dropout else without_dropout(adapted)
    return optimise(plain, request.passes.preparing, NOTHING, request.dumped("preparing"), "model")
