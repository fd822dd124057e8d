"""The recipe as a value: loss, optimizer, update rules, batch and more. Read from YAML or JSON, or made in Python."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..errors import RecipeError, nearest
from ..ir import Graph
from .augment import Augmentation, augmentations_of, refuse_mixing
from .ema import ema_of
from .fields import as_count, as_flag, as_size, check_keys, describe
from .frozen import Frozen, frozen_of
from .keys import canonical, key, keys_of
from .last_batch import last_batch_of, refuse_padding
from .lora import Lora, lora_of
from .losses.binding import bind
from .losses.kinds import Loss
from .losses.own import LossGraph
from .losses.reading import losses_mapping, losses_of
from .offload import NOTHING, Offload, offload_mapping, offload_of
from .optimizer import SGD, Optimizer, optimizer_mapping, optimizer_of
from .rules import UpdateRule, rules_of
from .trained import Trained, trained_of

_BATCH_NORM = ("frozen", "train")


def _optimizer(value: object, where: str) -> Optimizer:
    return SGD() if value is None else optimizer_of(value)


def _batch(value: object, where: str) -> int | None:
    return None if value is None else as_count(value, where)


def _memory(value: object, where: str) -> int | None:
    return None if value is None else as_size(value, where)


def _batch_norm(value: object, where: str) -> str:
    if not isinstance(value, str) or value not in _BATCH_NORM:
        hint = nearest(str(value), _BATCH_NORM)
        raise RecipeError(f"{where} must be 'frozen' or 'train', not {describe(value)}{hint}")
    return value


def _lora(value: object, where: str) -> Lora | None:
    return None if value is None else lora_of(value)


def _frozen(value: object, where: str) -> Frozen | None:
    return None if value is None else frozen_of(value)


def _trained(value: object, where: str) -> Trained | None:
    return None if value is None else trained_of(value)


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, of which YAML would silently take the last, numbers of any length, and
    aliases, ten lines of which say more than fits into memory."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """A node of the text, not one that was there before."""
        if self.check_event(yaml.AliasEvent):
            mark = self.get_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "a recipe has no aliases: write the value again", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for said, _ in node.value:
            if isinstance(said, yaml.ScalarNode) and said.tag != "tag:yaml.org,2002:merge":
                if said.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key '{said.value}' is there twice", said.start_mark
                    )
                seen.add(said.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Nothing in a recipe needs more than 64 bits, and Python does not print numbers of thousands of digits."""
        value = int(super().construct_yaml_int(node))
        if value.bit_length() > 64:
            raise yaml.constructor.ConstructorError(None, None, "a number has too many digits", node.start_mark)
        return value


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


@dataclass(frozen=True, init=False)
class Recipe:
    """What to train and how.

    batch       samples per step; None keeps the model's own batch
    batch_norm  `frozen` uses the running statistics as the model's evaluation does; `train` uses the batch's statistics
                and updates the running ones
    norm_batches  batches from which the running statistics of batch norms are estimated before training; None: they
                stay as they are
    accumulate  micro-batches of `batch` samples whose mean gradient makes one optimizer step
    ema         decay of the moving average of what is trained, which eval, predict and saved weights use; None: none
    last_batch  what becomes of samples that do not fill an epoch's last batch: `wrap`, `drop` or `partial`
    dropout     whether training drops what the model says; False computes as evaluation does
    lora        adapters beside frozen weights; with them `update` may be left out
    frozen      frozen weights in block-quantised numbers; None: as the model has them
    trained     trained weights in 16 bits; None: in f32
    augment     what training changes about the samples at random, in this order
    generate    whether the artifact also generates tokens, as a causal language model does
    memory      bytes that the training process may take, or a text such as `64MiB`: forward nodes are computed twice
                where it takes that; None: what the quickest step takes
    offload     what a GPU leaves in its host's memory: `frozen` weights, the optimizer's `state`
    """

    loss: tuple[Loss, ...] = key(losses_of, plain=losses_mapping)
    optimizer: Optimizer = key(_optimizer, plain=optimizer_mapping)
    update: tuple[UpdateRule, ...] = key(rules_of, (), always=False)
    batch: int | None = key(_batch, None)
    batch_norm: str = key(_batch_norm)
    norm_batches: int | None = key(_batch, None)
    accumulate: int = key(as_count, 1, always=False)
    ema: float | None = key(ema_of, None)
    last_batch: str = key(last_batch_of)
    dropout: bool = key(as_flag)
    lora: Lora | None = key(_lora, None)
    frozen: Frozen | None = key(_frozen, None)
    trained: Trained | None = key(_trained, None)
    augment: tuple[Augmentation, ...] = key(augmentations_of, (), always=False)
    generate: bool = key(as_flag, False, always=False)
    memory: int | None = key(_memory, None, always=False)
    offload: Offload = key(offload_of, NOTHING, always=False, plain=offload_mapping)

    def __init__(
        self,
        loss: object = "cross_entropy",
        optimizer: object = None,
        update: object = None,
        batch: int | None = None,
        batch_norm: str = "frozen",
        norm_batches: int | None = None,
        accumulate: int = 1,
        ema: object = None,
        last_batch: str = "wrap",
        dropout: bool = False,
        lora: object = None,
        frozen: object = None,
        trained: object = None,
        augment: object = (),
        generate: bool = False,
        memory: object = None,
        offload: object = (),
    ) -> None:
        """Every argument takes what the recipe file takes; without `update` everything is trained, or with `lora` the
        adapters only. Raises RecipeError."""
        given = {name: value for name, value in locals().items() if name in _KEYS}
        adapters_only = lora is not None and update in (None, (), [])
        given["update"] = "full" if update is None or adapters_only else update
        for name, one in _KEYS.items():
            object.__setattr__(self, name, one.read(given[name], name))
        if adapters_only:
            object.__setattr__(self, "update", ())
        if self.last_batch == "partial":
            refuse_padding(self.loss, self.batch_norm, self.accumulate)
        if self.norm_batches is not None and self.batch_norm == "train":
            raise RecipeError("with 'batch_norm: train' each step updates the statistics: leave 'norm_batches' out")
        if self.lora is not None and self.lora.dropout and not self.dropout:
            raise RecipeError("lora.dropout needs 'dropout: true', which turns dropout on in training")
        refuse_mixing(self.augment, self.loss, self.last_batch)

    def but_for(self, *names: str) -> tuple[object, ...]:
        """All that the recipe says but for these keys: equal where two differ in these at most."""
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self) if field.name not in names)

    @classmethod
    def from_mapping(cls, mapping: object) -> Recipe:
        """From the parsed content of a recipe file; unknown keys are errors."""
        if not isinstance(mapping, Mapping):
            raise RecipeError(f"a recipe is a mapping with the keys {', '.join(_KEYS)}, not {describe(mapping)}")
        check_keys(mapping, _KEYS, "the recipe")
        for needed in ("loss", "update"):
            if needed not in mapping and not (needed == "update" and "lora" in mapping):
                raise RecipeError(f"the recipe has no '{needed}'")
        return cls(**{name: mapping[name] for name in _KEYS if name in mapping})

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """From YAML or JSON text."""
        try:
            content = yaml.load(text, _Loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f" at line {mark.line + 1}" if mark else ""
            problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
            raise RecipeError(f"the recipe is not valid YAML{where}: {problem}") from None
        except RecursionError:
            raise RecipeError("the recipe has too many mappings or lists within each other") from None
        except ValueError as error:  # a date that is none, a number of thousands of digits
            raise RecipeError(f"the recipe has a value that cannot be read: {error}") from None
        return cls.from_mapping(content)

    @classmethod
    def load(cls, path: str | Path, import_losses: bool = False) -> Recipe:
        """From a file, with the loss files that lie beside it. import_losses: import the Python functions that losses
        name, too, from the file's folder or an installed package; for a recipe that may run any code in this
        process."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise RecipeError(f"there is no recipe '{path}'{_neighbour(path)}") from None
        except UnicodeDecodeError:
            raise RecipeError(f"the recipe '{path}' is not a text file") from None
        except OSError as error:
            raise RecipeError(f"cannot read the recipe '{path}': {error.strerror}") from None
        recipe = cls.parse(text).with_loss_files(path.parent)
        return recipe.with_imported_losses(path.parent) if import_losses else recipe

    def with_loss_files(self, folder: str | Path) -> Recipe:
        """With the files read that its losses name, which must lie in `folder`. Raises RecipeError."""
        return self._with_own_losses(lambda loss: loss.read_beside(Path(folder)))

    def with_imported_losses(self, folder: str | Path) -> Recipe:
        """With the Python functions imported that its losses name, from modules in `folder` or installed ones. Raises
        RecipeError."""
        return self._with_own_losses(lambda loss: loss.imported(Path(folder)))

    def bound(self, model: Graph) -> Recipe:
        """With a graph made of each loss that the user brought, for one model; without such losses, the recipe itself.
        Raises RecipeError where a loss does not fit the model."""
        return self._with_own_losses(lambda loss: bind(loss, model))

    def _with_own_losses(self, change: Callable[[LossGraph], LossGraph]) -> Recipe:
        if not any(isinstance(loss, LossGraph) for loss in self.loss):
            return self
        return self.with_(loss=[change(loss) if isinstance(loss, LossGraph) else loss for loss in self.loss])

    def with_(self, **changes: Any) -> Recipe:
        """The same recipe but for some keys."""
        return Recipe(**{**{field.name: getattr(self, field.name) for field in dataclasses.fields(self)}, **changes})

    def with_batch(self, batch: int | None) -> Recipe:
        """The same recipe for another batch."""
        return self.with_(batch=batch)

    def to_mapping(self) -> dict[str, Any]:
        """The canonical form, defaults filled in; `Recipe.from_mapping` gives the same recipe back."""
        return canonical(self)


_KEYS = keys_of(Recipe)


def _neighbour(path: Path) -> str:
    """A hint naming a file of a similar name in the same folder."""
    if not path.parent.is_dir():
        return ""
    close = difflib.get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1)
    return f" (did you mean '{path.parent / close[0]}'?)" if close else ""
