"""The loss of a recipe: which function, of which output, against which target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RecipeError, nearest
from ..ops.losses import LOSSES
from .fields import as_text, check_keys, describe


@dataclass(frozen=True)
class Loss:
    """`output` is the model output the loss reads (None: the only one, or the one called `logits`); `target` is the
    name of the extra input with the right answers."""

    name: str
    output: str | None = None
    target: str = "labels"

    def __post_init__(self) -> None:
        if self.name not in LOSSES:
            raise RecipeError(f"there is no loss '{self.name}'{nearest(self.name, LOSSES)}")

    @classmethod
    def of(cls, value: object) -> Loss:
        """From a name, a mapping `{name, output, target}`, or a Loss."""
        if isinstance(value, Loss):
            return value
        if isinstance(value, str):
            return cls(value)
        if not isinstance(value, Mapping):
            raise RecipeError(f"loss must be a name or a mapping, not {describe(value)}")
        check_keys(value, ("name", "output", "target"), "loss")
        if "name" not in value:
            raise RecipeError(f"loss needs a name{nearest('', LOSSES)}")
        output = value.get("output")
        return cls(
            as_text(value["name"], "loss.name"),
            None if output is None else as_text(output, "loss.output"),
            as_text(value.get("target", "labels"), "loss.target"),
        )

    def to_mapping(self) -> dict[str, Any]:
        mapping: dict[str, Any] = {"name": self.name, "target": self.target}
        if self.output is not None:
            mapping["output"] = self.output
        return mapping

    def pick_output(self, outputs: Mapping[str, Any]) -> str:
        """The name of the output the loss reads; RecipeError when it is not one of `outputs` or cannot be guessed."""
        if self.output is not None:
            if self.output not in outputs:
                raise RecipeError(f"the model has no output '{self.output}'{nearest(self.output, outputs)}")
            return self.output
        if len(outputs) == 1:
            return next(iter(outputs))
        if "logits" in outputs:
            return "logits"
        raise RecipeError(
            f"the model has {len(outputs)} outputs ({', '.join(outputs)}): say which one the loss reads, "
            f"as in 'loss: {{name: {self.name}, output: {next(iter(outputs), '…')}}}'"
        )
