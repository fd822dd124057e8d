"""Answers questions on one model, one after the other, for as long as somebody asks: the model is read once."""

import json
import re
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import yaml

from pock_server.worker.approximate import Approximations
from pock_server.worker.lines import Lines
from pockengine.check import CheckReport, check_file, estimate, layers
from pockengine.check.pictured import picture, training_picture
from pockengine.codegen import backends
from pockengine.codegen.backend import Backend
from pockengine.compile import Kept, uncollected
from pockengine.errors import PockError, RecipeError
from pockengine.frontends import load
from pockengine.ir import Graph
from pockengine.recipe import Recipe
from pockengine.recipe.resolution.channels import channel_axis
from pockengine.targets import Target
from pockengine.targets import get as get_target

_INTERNAL = 1000
_OUT_OF_MEMORY = 2003
_GRAPHS = 2
"""Batch sizes whose graphs are kept."""


def answer(folder: Path, lines: Lines, questions: TextIO = sys.stdin) -> None:
    """Serve a line `{"number", "ask", …}` after the other until there are no more; each has one line as its answer."""
    desk = _Desk(folder / "model" / "model.onnx")
    for line in questions:
        question = json.loads(line)
        number = int(question["number"])
        try:
            with uncollected():
                lines.answered(number, desk.answer(question))
        except PockError as error:
            text = str(error).replace(str(desk.path), question["name"])
            where = _line_of(question.get("recipe"), text) if isinstance(error, RecipeError) else None
            lines.refused(number, int(error.code), text, where)
        except MemoryError:
            lines.refused(number, _OUT_OF_MEMORY, "There is not enough memory to look at the model.", None)
        except Exception:
            lines.log(traceback.format_exc())
            lines.refused(number, _INTERNAL, "The compiler failed unexpectedly; the service's log has its trace.", None)


class _Desk:
    """One model's file, and what was read of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._graphs: OrderedDict[int | None, Graph] = OrderedDict()
        self._targets: dict[str, Target] = {}
        self._backends: dict[str, Backend] = {}
        self._kept, self._told = Kept(), Kept()
        self._approximations = Approximations()
        self._kinds: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "check": self._check,
            "estimate": self._estimate,
            "approximate": self._approximate,
            "graph": self._graph,
        }

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Raises PockError."""
        return self._kinds[question["ask"]](question)

    def _check(self, question: dict[str, Any]) -> dict[str, Any]:
        batch = question["batch"]
        report = check_file(self.path, target=self._target(question["target"]), batch=batch)
        told = _bounded(report).to_mapping()
        if report.supported:
            axes = _channels(self._loaded(batch))
            for layer in told["layers"]:
                for parameter in layer["parameters"]:
                    parameter["input_channels"] = axes.get(parameter["name"])
        del told["estimate"]
        usual = {name: one if "error" in one else {"takes": one} for name, one in told["recipes"].items()}
        return {**told, "recipes": usual}

    def _estimate(self, question: dict[str, Any]) -> dict[str, Any]:
        recipe = self._recipe(question)
        graph = self._loaded(recipe.batch)
        recipe = recipe.bound(graph)
        target, threads, memory = self._target(question["target"]), question["threads"], question["memory"]

        def made() -> dict[str, Any]:
            backend = self._backends.setdefault(target.backend, backends.of(target))
            found = estimate(graph, recipe, target, threads, memory, backend, self._kept)
            shown = layers(graph, recipe, found.saved_bytes)
            return {
                **found.to_mapping(),
                "layers": [layer.to_mapping() for layer in shown],
                "recipe": recipe.to_mapping(),
            }

        return self._told.get(("estimate", graph, recipe.but_for(), target, threads, memory), made)

    def _approximate(self, question: dict[str, Any]) -> dict[str, Any]:
        recipe = self._recipe(question)
        graph = self._loaded(recipe.batch)
        target = self._target(question["target"])
        return self._approximations.answer(graph, recipe.bound(graph), target, question["threads"])

    def _graph(self, question: dict[str, Any]) -> dict[str, Any]:
        target = self._target(question["target"])
        if question["recipe"] is None:
            return picture(self._loaded(question["batch"]), target).to_mapping()
        recipe = self._recipe(question)
        graph = self._loaded(recipe.batch)
        return training_picture(graph, recipe.bound(graph), target).to_mapping()

    def _recipe(self, question: dict[str, Any]) -> Recipe:
        said = question["recipe"]
        recipe = Recipe.parse(said) if isinstance(said, str) else Recipe.from_mapping(said)
        return recipe.with_loss_files(self.path.parent)

    def _loaded(self, batch: int | None) -> Graph:
        if batch not in self._graphs:
            self._graphs[batch] = load(self.path, None, batch, need_weights=False)
            if len(self._graphs) > _GRAPHS:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(batch)
        return self._graphs[batch]

    def _target(self, name: str) -> Target:
        if name not in self._targets:
            self._targets[name] = get_target(name)
        return self._targets[name]


_MOST_UNSUPPORTED = 1000


def _bounded(report: CheckReport) -> CheckReport:
    """The report without what nobody reads to its end."""
    return replace(report, unsupported=report.unsupported[:_MOST_UNSUPPORTED])


def _channels(graph: Graph) -> dict[str, int]:
    """Name of a weight -> how many input channels it has; those without are left out."""
    found = {}
    for value in graph.params:
        try:
            found[value.name] = value.type.shape[channel_axis(graph, value)]
        except RecipeError:
            continue
    return found


def _line_of(recipe: object, text: str) -> int | None:
    """The line of a recipe's text, from 1, that a sentence about it means: the one that it names, or the first on which
    something stands that it quotes."""
    if not isinstance(recipe, str):
        return None
    if told := re.search(r"\bat line (\d+)", text):
        return int(told[1])
    quoted = set(re.findall(r"'([^']+)'", text))
    words = {word for one in quoted for word in (one, one.rpartition(".")[2])} | set(re.findall(r"^\w+", text))
    try:
        for event in yaml.parse(recipe, yaml.CSafeLoader):
            if isinstance(event, yaml.ScalarEvent) and event.value in words and event.start_mark:
                return event.start_mark.line + 1
    except yaml.YAMLError:
        return None
    return None
