"""What a language model's dataset consists of: asked of an artifact, or said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import DataError, nearest
from ..generation.inputs import IDS, INPUTS, NUMBERS, POSITIONS

if TYPE_CHECKING:
    from ..artifact import Manifest


@dataclass(frozen=True)
class Layout:
    """Tensors of a dataset.

    length      tokens of a sequence
    vocabulary  ids are below it
    inputs      of INPUTS, those that the model has
    labels      what the target is called
    ahead       labels are the tokens that follow (`cross_entropy`), not the tokens themselves (`causal_lm`)
    ignored     the label that does not count"""

    length: int
    vocabulary: int
    inputs: tuple[str, ...] = (IDS,)
    labels: str = "labels"
    ahead: bool = False
    ignored: int = -100

    def __post_init__(self) -> None:
        if self.length < 2:
            raise DataError(f"a sequence has at least 2 tokens, not {self.length}")
        if not 1 <= self.vocabulary < 1 << 31:
            raise DataError(f"a vocabulary has 1 to {(1 << 31) - 1} tokens, not {self.vocabulary}")
        for name in self.inputs:
            if name not in INPUTS:
                known = ", ".join(INPUTS)
                raise DataError(f"a token stream cannot fill the input '{name}'{nearest(name, INPUTS)}: {known}")
        if IDS not in self.inputs:
            raise DataError(f"a language model has the input '{IDS}', and this one has {', '.join(self.inputs)}")

    @property
    def apart(self) -> bool:
        """Whether the model is told where documents of a sequence begin, so that they need not see each other."""
        return POSITIONS in self.inputs or NUMBERS in self.inputs


def layout_of(manifest: Manifest) -> Layout:
    """What an artifact's model trains on. Raises DataError where it is no language model with labels of its own."""
    losses = manifest.recipe["loss"]
    loss = losses[0] if isinstance(losses, list) else losses
    name, labels = loss.get("name", "one of its own"), loss.get("target") or "labels"
    ports = {port.name: port for port in manifest.inputs}
    scores = _scores(manifest, loss)
    if isinstance(losses, list) or name not in ("causal_lm", "cross_entropy") or scores is None:
        what = "a sum of losses" if isinstance(losses, list) else f"the loss {name}"
        raise DataError(f"'{manifest.name}' trains with {what}: a token stream is for causal_lm or cross_entropy alone")
    if labels not in ports or not ports[labels].target:
        raise DataError(
            f"the loss of '{manifest.name}' reads its own input '{labels}', so nothing can be left out of it: "
            "compile it with a loss that has a target of its own, such as 'loss: causal_lm'"
        )
    inputs = tuple(port.name for port in manifest.inputs if not port.target)
    time = scores[1]
    for port in (*(ports[one] for one in inputs), ports[labels]):
        if port.shape[1:] != (time,):
            raise DataError(f"'{port.name}' has the shape {list(port.shape)}: a token stream has [batch, {time}]")
    return Layout(time, scores[2], inputs, labels, name == "cross_entropy", loss.get("ignore_index", -100))


def _scores(manifest: Manifest, loss: Any) -> tuple[int, ...] | None:
    """The shape [batch, time, vocabulary] of what the loss reads."""
    shapes = {port.name: port.shape for port in manifest.outputs}
    wanted = loss.get("output") or ("logits" if "logits" in shapes else next(iter(shapes), ""))
    shape = shapes.get(wanted, ())
    return shape if len(shape) == 3 and loss.get("axis", -1) == -1 else None
