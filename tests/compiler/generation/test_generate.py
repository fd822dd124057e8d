"""`pock run … generate`: the tokens of transformers' `generate`, before and after training, on each backend."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import pockengine as pock
from pockengine.artifact import model_command
from pockengine.tokens import token_dataset
from tests.compiler.cli.command import pock as pock_command
from tests.compiler.codegen.opencl.library import needs_device
from tests.compiler.tokens import llama

PROMPT = [5, 17, 42]


def _generated(artifact: Path, *options: object, prompt: list[int] | None = None) -> list[int]:
    """The tokens that the executable makes."""
    command = model_command(artifact, "generate", ["--prompt-tokens", ",".join(map(str, prompt or PROMPT))])
    run = subprocess.run([*command, *map(str, options)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    events = [json.loads(line) for line in run.stdout.splitlines()]
    tokens = [event for event in events if event["event"] == "token"]
    first = len(prompt or PROMPT)
    assert [event["position"] for event in tokens] == list(range(first, first + len(tokens)))
    return [event["token"] for event in tokens]


def _wanted(model: Any, prompt: list[int], count: int) -> list[int]:
    """The likeliest tokens, by transformers."""
    ids = torch.tensor([prompt])
    told = {"attention_mask": torch.ones_like(ids), "pad_token_id": 0}  # else tokens 0 of the prompt are masked
    made = model.generate(ids, max_new_tokens=count, do_sample=False, use_cache=True, **told)
    return [int(one) for one in made[0, len(prompt) :]]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("generate") / "m.pock"
    pock.compile(llama.graph(), llama.recipe(generate=True), threads=2).save(path)
    return path


def test_the_likeliest_tokens_are_those_of_transformers(artifact: Path) -> None:
    """To the last place that there is: the prompt and all but the last token are read."""
    for prompt in ([5], PROMPT, list(range(20)), list(range(llama.TIME))):
        count = llama.TIME - len(prompt) + 1
        wanted = _wanted(llama.module(), prompt, count)
        assert _generated(artifact, "--tokens", count, prompt=prompt) == wanted
    assert _generated(artifact, "--threads", 1) == _wanted(llama.module(), PROMPT, llama.TIME - len(PROMPT) + 1)


def test_it_ends_with_the_token_that_stops_it(artifact: Path) -> None:
    made = _generated(artifact)
    stop = made[4]
    assert _generated(artifact, "--stop", stop) == made[: made.index(stop) + 1]


TRAINED: dict[str, dict[str, Any]] = {
    "sparse": {"update": [{"params": "*layers.1.*"}]},
    "average": {"update": "full", "ema": 0.5},
    "adapters beside int8": {
        "lora": {"params": ["*.q_proj", "*.v_proj"], "rank": 4, "alpha": 8},
        "frozen": {"weights": "int8", "block": 16, "params": ["*.up_proj", "*.q_proj"]},
    },
}


@pytest.mark.parametrize("name", TRAINED)
def test_after_training(name: str, tmp_path: Path) -> None:
    """What the exported model generates in transformers."""
    recipe = pock.Recipe(loss="causal_lm", optimizer={"name": "sgd", "lr": 0.3}, generate=True, **TRAINED[name])
    built = pock.compile(llama.graph(), recipe, threads=1)
    file, data, weights = tmp_path / "m.pock", tmp_path / "d.safetensors", tmp_path / "w.safetensors"
    built.save(file)
    token_dataset(llama.documents(tmp_path, count=40), llama.LAYOUT).save(data)
    command = model_command(file, "train", ["--data", str(data), "--epochs", "6", "--save", str(weights)])
    subprocess.run(command, check=True, capture_output=True)
    merged = tmp_path / "model.safetensors"
    built.export(merged, weights=weights, merge="lora" in TRAINED[name])
    model = copy.deepcopy(llama.module())
    model.load_state_dict(load_file(merged), strict=False)
    count = llama.TIME - len(PROMPT) + 1
    learned = _generated(file, "--load", weights)
    assert learned == _wanted(model, PROMPT, count)
    assert learned != _generated(file)


@pytest.mark.parametrize(
    "backend", ["reference", "emulated", pytest.param("opencl", marks=[needs_device, pytest.mark.large])]
)
def test_other_backends(backend: str, tmp_path: Path) -> None:
    file = tmp_path / "m.pock"
    pock.compile(llama.graph(), llama.recipe("head", generate=True), threads=1, backend=backend).save(file)
    assert _generated(file, "--tokens", 6) == _wanted(llama.module(), PROMPT, 6)


@pytest.mark.parametrize("options, kept", [((), llama.VOCABULARY), (("--top-k", 3), 3)])
def test_drawn_tokens_have_the_scores_chances(options: tuple[object, ...], kept: int, artifact: Path) -> None:
    """Where a drawn token lies in the softmax of what was before it, likeliest first, is uniform: 40 texts."""
    count, rng, places = llama.TIME - len(PROMPT), np.random.default_rng(1), []
    for seed in range(40):
        drawn = _generated(artifact, "--tokens", count, "--temperature", 2, *options, "--seed", seed)
        scores = llama.module()(torch.tensor([PROMPT + drawn])).logits[0, len(PROMPT) - 1 : -1].detach().double() / 2
        least = scores.sort(descending=True).values[:, kept - 1 : kept]
        chances = torch.softmax(torch.where(scores >= least, scores, -torch.inf), 1).numpy()
        own = chances[range(count), drawn]
        assert (own > 0).all()
        before = np.where(chances > own[:, None], chances, 0).sum(1)
        places += list(before + own * rng.random(count))
    counts, _ = np.histogram(places, bins=10, range=(0, 1))
    expected = len(places) / 10
    assert ((counts - expected) ** 2 / expected).sum() < 33.7  # chi-square of 9: one in ten thousand is beyond


def test_a_seed_draws_the_same_tokens_again(artifact: Path) -> None:
    again = [_generated(artifact, "--temperature", 1.5, "--seed", seed) for seed in (7, 7, 8)]
    assert again[0] == again[1] != again[2]


REFUSED = {
    "no prompt": ([], "generate needs --prompt-tokens"),
    "an id beyond the vocabulary": (["--prompt-tokens", "1,61"], "token 61 is not in the vocabulary of 0 to 60"),
    "no number": (["--prompt-tokens", "1,x"], "--prompt-tokens takes whole numbers such as 1,2,3, not 'x'"),
    "a negative number": (["--prompt-tokens", "-1"], "takes whole numbers"),
    "nothing after a comma": (["--prompt-tokens", "1,"], "takes whole numbers"),
    "a prompt that is too long": (["--prompt-tokens", ",".join("1" * 25)], "the prompt has 25 tokens"),
    "too many tokens": (["--prompt-tokens", "1,2", "--tokens", "24"], "there is room for 23, not --tokens 24"),
    "a seed of nothing": (["--prompt-tokens", "1", "--seed", "3"], "--seed needs a --temperature above 0"),
    "a temperature that is none": (["--prompt-tokens", "1", "--temperature", "nan"], "takes a number from 0"),
    "a dataset": (["--prompt-tokens", "1", "--data", "d"], "--data is not an option of 'generate'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, artifact: Path) -> None:
    arguments, reason = REFUSED[name]
    run = subprocess.run(model_command(artifact, "generate", arguments), capture_output=True, text=True, check=False)
    assert run.returncode == 2 and reason in run.stderr and run.stderr.count("\n") == 1


def test_weights_that_have_diverged_are_told(artifact: Path, tmp_path: Path) -> None:
    broken = {"lm_head.weight": torch.full((llama.VOCABULARY, 32), torch.nan)}
    save_file(broken, tmp_path / "w.safetensors")
    command = model_command(artifact, "generate", ["--prompt-tokens", "1", "--load", str(tmp_path / "w.safetensors")])
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 6 and "the weights have diverged" in run.stderr


def test_text_in_and_out(
    artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*options: object) -> tuple[int, str, str]:
        return pock_command("run", artifact, "generate", *options, capsys=capsys, monkeypatch=monkeypatch)

    prompt = "0+1"
    wanted = bytes(_wanted(llama.module(), list(prompt.encode()), 6)).decode()
    code, out, err = run("--prompt", prompt, "--tokenizer", "bytes", "--tokens", 6)
    assert code == 0 and out.startswith(f"{wanted}\n8 tokens: "), err
    code, out, err = run("--prompt-tokens", "5,17,42", "--tokens", 3)
    assert code == 0 and out.startswith(" ".join(map(str, _wanted(llama.module(), PROMPT, 3)))), err
    for options, reason in {
        ("--prompt", "a"): "--prompt needs a --tokenizer",
        ("--prompt", "", "--tokenizer", "bytes"): "the prompt has no token",
        ("--prompt", "a", "--tokenizer", "bytes", "--begin", "<s>"): "--begin is a token id",
        ("--prompt", "0", "--tokenizer", "bytes", "--prompt-tokens", "1"): "exclude each other",
        ("--prompt",): "--prompt needs a value",
    }.items():
        code, out, err = run(*options)
        assert code == 2 and reason in err


def test_without_it_the_artifact_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "m.pock"
    pock.compile(llama.graph(), llama.recipe("head"), threads=1).save(file)
    command = model_command(file, "generate", ["--prompt-tokens", "1"])
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2 and "say 'generate: true' in the recipe" in run.stderr


def test_training_is_the_same_with_it(tmp_path: Path) -> None:
    """Losses bit by bit, checkpoints without caches."""
    batch = {
        name: array[: llama.BATCH]
        for name, array in token_dataset(llama.documents(tmp_path), llama.LAYOUT).tensors.items()
    }
    losses, names = [], []
    for generate in (False, True):
        artifact = pock.compile(llama.graph(), llama.recipe(generate=generate), threads=1)
        session = artifact.load()
        losses.append([session.step(batch) for _ in range(3)])
        names.append({tensor.name for tensor in artifact.manifest.tensors})
    assert losses[0] == losses[1] and names[0] == names[1]
