"""Damage to recipe files: of their text, and of what they say."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml

from pockengine.compile import Request, plan_programs
from pockengine.errors import PockError
from pockengine.ir import Graph
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.passes.networks import cnn, transformer

from .isolated import RIGHT

VALID: tuple[dict[str, Any], ...] = (
    {
        "loss": "cross_entropy",
        "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True},
        "batch": 2,
        "update": [{"params": "fc.*"}, {"params": "*.bias", "last": 3}, {"params": "c1.weight", "channels": 0.5}],
    },
    {
        "loss": {
            "name": "cross_entropy",
            "label_smoothing": 0.1,
            "class_weights": [1, 2, 1, 1, 0.5],
            "ignore_index": 3,
        },
        "optimizer": {
            "name": "adamw",
            "lr": "1e-3",
            "betas": [0.9, 0.99],
            "weight_decay": 0.1,
            "exclude": ["*.bias"],
            "schedule": {"name": "cosine", "warmup": 2, "steps": 10, "end": 0.1},
            "groups": [{"params": "fc.*", "lr": 0.01}],
            "clip": {"norm": 1.0},
        },
        "update": "full",
        "accumulate": 2,
        "ema": {"decay": 0.99},
        "batch_norm": "frozen",
    },
    {
        "loss": [{"name": "mse", "target": "t", "weight": 0.5}, {"name": "huber", "delta": 2.0, "mask": "m"}],
        "optimizer": {"name": "lamb", "schedule": {"name": "step", "every": 3, "gamma": 0.5}, "clip": {"value": 0.1}},
        "update": ["head", "bias"],
        "last_batch": "partial",
    },
    {
        "loss": {"name": "kl", "temperature": 3.0, "target": "teacher"},
        "optimizer": {"name": "adafactor", "eps": [1e-7, 1e-3], "beta2_decay": -0.7},
        "lora": {"params": ["fc", "*.weight"], "rank": 2, "alpha": 4, "seed": 1},
        "last_batch": "drop",
        "augment": [{"name": "crop", "padding": 2, "axes": [-1], "input": "x"}, {"name": "mixup", "alpha": 0.4}],
    },
    {
        "loss": {"name": "bce_with_logits", "pos_weight": [1, 2, 3, 4, 5]},
        "optimizer": "lion",
        "update": {"params": "*"},
    },
)

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.5, 1e-30, 1e30, 1e308, 10**400, -(10**30), 2**31, 2**63, 2**64),
    *(
        float("nan"),
        float("inf"),
        float("-inf"),
        "",
        " ",
        "nan",
        "inf",
        "1e999",
        "-1",
        "full",
        "sgd",
        "*",
        "[",
        "**",
        "[!]",
    ),
    *("ä\u2028ö", "a\nb", "\0", "x" * 5000, "*" * 300, "{}", "logits", "labels", "x", "fc.weight", "[]-a]*"),
    *([], {}, [[]], [None], {"name": None}, {"name": []}, {"name": "mse"}, {1: 2}, {None: 1}, [1, 2], [0.9, 0.99, 0.9]),
    *([1e400, -1], {"params": "*"}, {"value": 0}, {"norm": -1}, {"decay": 1}, [{}], {"name": {"name": "sgd"}}),
)
"""What a key may hold by mistake."""

NEAR: tuple[Any, ...] = (
    *(0.1, 0.5, 0.9, 1, 2, 3, 10, 64, 1000, 2**20, 1e-3, "1e-4", "full", "bias", "head", "*", "*.weight", "mse", "l1"),
    *("adam", "sgd", "lion", "wrap", "drop", "partial", "train", "frozen", "cosine", True, False, None, ["*.weight"]),
    *({"name": "mse"}, {"name": "step", "every": 2}, {"norm": 1}, [0.5, 0.5], {"params": "*", "channels": 2}),
)
"""What it may hold on purpose, here or elsewhere."""

BOMBS = (
    "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]" for i in range(8)
    ) + "\nloss: *i\n",
    "loss: &l {name: *l}\nupdate: full\n",
    "&r {loss: mse, update: [*r], optimizer: *r}",
    "loss: " + "[" * 500 + "]" * 500 + "\nupdate: full\n",
    "loss: " + "{a: " * 2000 + "1" + "}" * 2000 + "\nupdate: full\n",
    "loss: !!python/object/apply:os.system ['true']\nupdate: full\n",
    "loss: mse\nloss: l1\nupdate: full\n",
    "? [a, b]\n: c\nloss: mse\nupdate: full\n",
    "? {a: b}\n: c\nloss: mse\n",
    "<<: {loss: mse}\nupdate: full\n",
    "<<: 3\nloss: mse\nupdate: full\n",
    "--- {loss: mse}\n--- {update: full}\n",
    "loss: mse\nupdate: full\nbatch: 0x" + "f" * 5000 + "\n",
    "loss: mse\nupdate: full\nbatch: " + "9" * 5000 + "\n",
    "loss: mse\nupdate: full\nbatch: 1:60:60\n",
    "loss: mse\nupdate: full\nbatch: 2026-13-45\n",
    "loss: mse\nupdate: full\nbatch: !!binary abc\n",
    "loss: mse\nupdate: full\nbatch: !!set {a, b}\n",
    "loss: 2026-01-01\nupdate: 2026-01-01T00:00:00Z\n",
    "\ufeffloss: mse\nupdate: full\n",
    "%YAML 9.9\n---\nloss: mse\n",
    "loss: *nothing\n",
    "\t- a",
    "",
    "# nothing",
    "null",
    "[]",
    "42",
)  # fmt: skip


@dataclass(frozen=True)
class Text:
    """A recipe file's bytes."""

    title: str
    content: bytes


def mutants(seed: int, count: int) -> Iterator[Text]:
    """The valid ones, the bombs, then one to three changes of a valid one."""
    fixed = [("valid", yaml.safe_dump(mapping)) for mapping in VALID] + [("bomb", text) for text in BOMBS]
    for title, text in fixed[:count]:
        yield Text(title, text.encode())
    for number in range(len(fixed), count):
        yield _mutated(Random(f"{seed} {number}"))


def _mutated(random: Random) -> Text:
    mapping = copy.deepcopy(random.choice(VALID))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _change(mapping, random)
    content = yaml.safe_dump(mapping, allow_unicode=random.random() < 0.5).encode()
    if random.random() < 0.25:
        return Text("text", _damaged(content, random))
    return Text("mapping", content)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything inside."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


def _change(mapping: dict[Any, Any], random: Random) -> None:
    container, key = random.choice(list(_places(mapping)) or [(mapping, "loss")])
    kind = random.randrange(6)
    if kind <= 2 or isinstance(container, list):
        container[key] = random.choice(ODD if random.random() < 0.5 else NEAR)
    elif kind == 3:
        del container[key]
    elif kind == 4:
        container[_misspelt(str(key), random)] = container.pop(key)
    else:
        other, name = random.choice([(c, k) for recipe in VALID for c, k in _places(recipe) if isinstance(c, dict)])
        container[name] = copy.deepcopy(other[name])


def _misspelt(key: str, random: Random) -> Any:
    place = random.randrange(len(key) or 1)
    odd = (key[:place] + key[place + 1 :], key.upper(), key + "s", f" {key}", "ü", "", 0, None, True, 1.5, "__class__")
    return random.choice(odd)


def _damaged(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice((1, 2, 6))):
        place = random.randrange(len(changed) or 1)
        piece = random.choice(
            (b"", b":", b"- ", b"\n", b"\t", b"{", b"]", b"&a ", b"*a", b"!!", b"\xff", b"\0", b"'", b"%", b"|")
        )
        changed[place : place + random.choice((0, 1, 5))] = piece
    return bytes(changed)


class LostInTranslation(Exception):
    """A recipe that its own mapping does not give back."""


@cache
def _models() -> tuple[Graph, ...]:
    return cnn(), transformer()


def examine(text: Text) -> str:
    """Load the file, check that the recipe's mapping gives it back, plan it for two models. Raises PockError when the
    recipe is refused; one that does not fit a model is none of the recipe's errors."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, np.errstate(all="ignore"):
        path = Path(folder) / "recipe.yaml"
        path.write_bytes(text.content)
        recipe = Recipe.load(path)
        for again in (Recipe.from_mapping(recipe.to_mapping()), Recipe.parse(yaml.safe_dump(recipe.to_mapping()))):
            if again != recipe:
                raise LostInTranslation(f"{again} instead of {recipe}")
        refusals = []
        for model in _models():
            try:
                plan_programs(Request(model, recipe, get("host"), threads=2))
                return RIGHT
            except PockError as error:
                refusals.append(error)
        raise refusals[0]
