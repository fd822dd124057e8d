"""Recipes as values: what is accepted, what is refused and with which words."""

from __future__ import annotations

import json

import pytest
import yaml

from pockengine.errors import RecipeError
from pockengine.recipe import SGD, AdamW, Lion, Recipe, UpdateRule
from pockengine.recipe.losses.kinds import MSE, CrossEntropy

DOCUMENTED = """
loss: cross_entropy
optimizer: {name: sgd, lr: 0.05, momentum: 0.9}
batch: 8
update:
  - {params: "classifier.*"}
  - {params: "*.bias", last: 7}
  - {params: "layers.1[0-6].conv1.weight", channels: 0.5}
"""


def refused(**changes: object) -> str:
    """The message for the documented recipe with some keys replaced."""
    with pytest.raises(RecipeError) as caught:
        Recipe.from_mapping({**yaml.safe_load(DOCUMENTED), **changes})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_documented_recipe():
    recipe = Recipe.parse(DOCUMENTED)
    assert recipe.loss == (CrossEntropy(),)
    assert recipe.optimizer == SGD(lr=0.05, momentum=0.9)
    assert recipe.batch == 8
    assert recipe.batch_norm == "frozen"
    assert recipe.update == (
        UpdateRule("classifier.*"),
        UpdateRule("*.bias", last=7),
        UpdateRule("layers.1[0-6].conv1.weight", channels=0.5),
    )


def test_json_is_read_too(tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(yaml.safe_load(DOCUMENTED)))
    assert Recipe.load(path) == Recipe.parse(DOCUMENTED)


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe.parse(DOCUMENTED),
        Recipe(loss={"name": "mse", "output": "y", "target": "t"}, optimizer="lion", update="head"),
        Recipe(optimizer=AdamW(lr=1e-4, betas=(0.8, 0.99)), update=[{"last_blocks": 2}, "bias"], batch_norm="train"),
        Recipe(update={"params": "*", "channels": 3}),
        Recipe(update={"params": "*", "channels": [7, 0, 3]}),
    ],
)
def test_canonical_form_gives_the_recipe_back(recipe):
    assert Recipe.from_mapping(json.loads(json.dumps(recipe.to_mapping()))) == recipe


def test_shorthands():
    assert Recipe(update="full").update == (UpdateRule("*"),)
    assert Recipe(update="bias").update == (UpdateRule("*bias"),)
    assert Recipe(update=["head", "bias"]).update == (UpdateRule(head=True), UpdateRule("*bias"))
    assert Recipe(optimizer="lion").optimizer == Lion()


def test_numbers_that_yaml_reads_as_text():
    assert Recipe.parse("{loss: mse, optimizer: {name: adamw, lr: 1e-3}, update: full}").optimizer == AdamW(lr=1e-3)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"optimiser": "sgd"}, ["'optimiser'", "did you mean 'optimizer'"]),
        ({"optimizer": "sdg"}, ["no optimizer 'sdg'", "did you mean 'sgd'"]),
        ({"optimizer": {"name": "rmsprop"}}, ["no optimizer 'rmsprop'", "adamw"]),
        ({"optimizer": {"name": "sgd", "learning_rate": 1}}, ["'learning_rate'", "'sgd'"]),
        ({"optimizer": {"name": "sgd", "betas": [0.9, 0.9]}}, ["'betas'"]),
        ({"optimizer": {"lr": 0.1}}, ["needs a name"]),
        ({"optimizer": 3}, ["a name or a mapping"]),
        ({"optimizer": {"name": "sgd", "lr": "fast"}}, ["optimizer.lr", "a number", "'fast'"]),
        ({"optimizer": {"name": "sgd", "lr": -1}}, ["optimizer.lr", "at least 0", "-1"]),
        ({"optimizer": {"name": "sgd", "lr": float("nan")}}, ["optimizer.lr"]),
        ({"optimizer": {"name": "sgd", "lr": True}}, ["optimizer.lr", "a number"]),
        ({"optimizer": {"name": "sgd", "momentum": 1.0}}, ["optimizer.momentum", "less than 1"]),
        ({"optimizer": {"name": "sgd", "nesterov": True}}, ["nesterov needs a momentum"]),
        ({"optimizer": {"name": "sgd", "nesterov": "yes"}}, ["true or false"]),
        ({"optimizer": {"name": "adam", "betas": 0.9}}, ["two numbers"]),
        ({"optimizer": {"name": "adam", "eps": 0}}, ["optimizer.eps", "greater than 0"]),
        ({"loss": "crossentropy"}, ["no loss 'crossentropy'", "did you mean 'cross_entropy'"]),
        ({"loss": {"output": "y"}}, ["loss needs a name"]),
        ({"loss": {"name": "mse", "outputs": "y"}}, ["'outputs'", "did you mean 'output'"]),
        ({"loss": 4}, ["loss must be"]),
        ({"batch": 0}, ["batch", "at least 1"]),
        ({"batch": "8"}, ["batch", "a whole number"]),
        ({"batch": 2.5}, ["batch", "a whole number"]),
        ({"memory": 0}, ["memory", "a size such as 64MiB", "0"]),
        ({"memory": -1}, ["memory", "a size"]),
        ({"memory": True}, ["memory", "true or false"]),
        ({"memory": 1.5}, ["memory", "a number (1.5)"]),
        ({"memory": "64 mebibytes"}, ["memory", "a text ('64 mebibytes')"]),
        ({"memory": "9" * 400}, ["memory", "a size"]),
        ({"memory": "99999999999GiB"}, ["memory", "a size"]),
        ({"memory": 1 << 63}, ["memory", "a size"]),
        ({"batch_norm": "training"}, ["batch_norm", "'train'"]),
        ({"update": []}, ["update is empty"]),
        ({"update": 7}, ["update must be"]),
        ({"update": "ful"}, ["'ful'", "did you mean 'full'"]),
        ({"update": [{}]}, ["update[0] is empty"]),
        ({"update": [{"param": "*"}]}, ["update[0]", "'param'", "did you mean 'params'"]),
        ({"update": [{"params": "*"}, {"params": 3}]}, ["update[1].params", "a text"]),
        ({"update": [{"params": "*", "last": 0}]}, ["update[0].last", "at least 1"]),
        ({"update": [{"params": "*", "last": "two"}]}, ["update[0].last", "a whole number"]),
        ({"update": [{"params": "*", "channels": 1.5}]}, ["update[0].channels", "at most 1"]),
        ({"update": [{"params": "*", "channels": 0}]}, ["update[0].channels", "at least 1"]),
        ({"update": [{"params": "*", "channels": 0.0}]}, ["update[0].channels", "greater than 0"]),
        ({"update": [{"params": "*", "channels": []}]}, ["update[0].channels", "lists no index"]),
        ({"update": [{"params": "*", "channels": [3, -1]}]}, ["update[0].channels", "from 0 on", "-1"]),
        ({"update": [{"params": "*", "channels": [3, 2**31]}]}, ["update[0].channels", "2147483648"]),
        ({"update": [{"params": "*", "channels": [0.5]}]}, ["update[0].channels", "a number (0.5)"]),
        ({"update": [{"params": "*", "channels": [True]}]}, ["update[0].channels", "true or false"]),
        ({"update": [{"params": "*", "channels": [[1]]}]}, ["update[0].channels", "a list"]),
        ({"update": [{"params": "*", "channels": [1, 5, 1]}]}, ["update[0].channels", "index 1 twice"]),
        ({"update": [{"params": "*", "channels": {"indices": [1]}}]}, ["update[0].channels", "a number", "a mapping"]),
        ({"update": [{"params": "*", "head": 1}]}, ["update[0].head", "true or false"]),
    ],
)
def test_refused(changes, words):
    message = refused(**changes)
    for word in words:
        assert word in message


@pytest.mark.parametrize("key", ["loss", "update"])
def test_missing_key(key):
    mapping = yaml.safe_load(DOCUMENTED)
    del mapping[key]
    with pytest.raises(RecipeError, match=f"no '{key}'"):
        Recipe.from_mapping(mapping)


@pytest.mark.parametrize("text", ["", "- a\n- b", "just text", "7"])
def test_not_a_mapping(text):
    with pytest.raises(RecipeError, match="a recipe is a mapping"):
        Recipe.parse(text)


def test_malformed_yaml_names_the_line():
    with pytest.raises(RecipeError, match="line 3"):
        Recipe.parse("loss: mse\nupdate: full\n  bad: [")


@pytest.mark.parametrize(("said", "nbytes"), [("1.5MiB", 3 << 19), ("64 KiB", 1 << 16), (4096, 4096), (None, None)])
def test_memory_is_a_size(said, nbytes):
    recipe = Recipe("mse", memory=said)
    assert recipe.memory == nbytes
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe
    assert ("memory" in recipe.to_mapping()) == (nbytes is not None)


def test_missing_file_names_a_neighbour(tmp_path):
    (tmp_path / "recipe.yaml").write_text(DOCUMENTED)
    with pytest.raises(RecipeError, match=r"did you mean '.*recipe\.yaml'"):
        Recipe.load(tmp_path / "recipe.yml")


def test_binary_file(tmp_path):
    (tmp_path / "r.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match="not a text file"):
        Recipe.load(tmp_path / "r.yaml")


def test_loss_output_is_found_or_asked_for():
    assert MSE().pick_output({"y": 0}) == "y"
    assert MSE().pick_output({"hidden": 0, "logits": 1}) == "logits"
    with pytest.raises(RecipeError, match="2 outputs"):
        MSE().pick_output({"a": 0, "b": 1})
    with pytest.raises(RecipeError, match="did you mean 'logits'"):
        MSE("logit").pick_output({"logits": 0, "b": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loss: mse\nupdate: full\nupdate: head\n", "the key 'update' is there twice"),
        ("loss: " + "[" * 2000 + "]" * 2000, "within each other"),
        ("loss: mse\nupdate: &rules [full]\nema: *rules\n", "at line 3: a recipe has no aliases"),
        ("loss: mse\nupdate: &rules [*rules]\n", "a recipe has no aliases"),
        ("\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)), "a recipe has no aliases"),
        ("loss: mse\nbatch: 0x" + "f" * 5000, "too many digits"),
        ("loss: mse\nbatch: " + "9" * 5000, "cannot be read"),
        ("loss: mse\nbatch: 2026-13-45", "cannot be read"),
        ("loss: mse\nupdate: full\naccumulate: 2147483648", "less than 2147483648"),
    ],
)
def test_what_yaml_would_let_pass(text, message):
    with pytest.raises(RecipeError, match=message):
        Recipe.parse(text)


def test_a_long_text_is_cut():
    text = refused(loss="x" * 5000)
    assert len(text) < 1000
    assert text.startswith("there is no loss 'xxx")
    assert text.endswith("output)")
