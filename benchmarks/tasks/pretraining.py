"""Pre-trains models with their own compiled step, once: the weights stay in the cache folder, by a digest of all that
made them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save

import pockengine as pock
from pockengine.codegen.files import write_whole
from pockengine.codegen.folder_cache import default_folder
from pockengine.ir import render

from .models import BATCH, DOMAINS, Model
from .rates import DECAYS
from .task import Metric, Split, Task, Tensors
from .training import Plan, Trainer

_SEED = 1
_CHECKED = 2000
"""Samples that pre-training is judged by."""
_LOOK = 64
"""Samples that stand for all in the digest."""


def pretrained(model: Model) -> Tensors:
    """The weights after pre-training; taken from the cache where they are there, and else made, which takes minutes."""
    file = _file(model)
    if not file.exists():
        with _only_one(file):
            if not file.exists():
                _make(model, file)
    return load_file(file)


def accuracy_of(model: Model) -> float | None:
    """What pre-training came to on samples of its own domain; None where it was not done yet."""
    file = _file(model).with_suffix(".json")
    return float(json.loads(file.read_text())["accuracy"]) if file.exists() else None


def start_of(model: Model, task: Task, seed: int, weights: Tensors) -> Tensors:
    """Where adapting begins: the pre-trained weights; the head drawn anew where labels mean something new."""
    if task.keeps_labels:
        return weights
    chance = np.random.default_rng([seed, 3])
    new = {}
    for name in model.head:
        old = weights[name]
        fresh = chance.standard_normal(old.shape, np.float32) * np.float32(0.02)
        new[name] = fresh if old.ndim > 1 else np.zeros_like(old)
    return {**weights, **new}


def _samples(model: Model, count: int, number: int) -> Split:
    """Samples to pre-train on (number 0) and to judge by (1)."""
    drawn = DOMAINS[model.domain].draw(count, np.random.default_rng([_SEED, number]))
    return model.samples_of(drawn, pretraining=number == 0)


def _file(model: Model) -> Path:
    graph, look = model.graph(), _samples(model, _LOOK, 0)
    said = [model.recipe().to_mapping(), BATCH, model.samples, model.epochs, model.rate, DECAYS, _SEED]
    found = hashlib.sha256(json.dumps(said, sort_keys=True).encode() + render(graph).encode())
    for array in (*graph.data.values(), *look.inputs.values(), look.labels):
        found.update(array.tobytes())
    name = f"{model.name}-{model.domain}-{found.hexdigest()[:16]}.safetensors"
    return default_folder() / "pretrained" / name


@contextmanager
def _only_one(file: Path) -> Iterator[None]:
    """Other processes that want the same file wait."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(model: Model, file: Path) -> None:
    began = time.monotonic()
    artifact = pock.compile(model.graph(), model.recipe(batch_norm="train"), threads=1)
    train, checked = _samples(model, model.samples, 0), _samples(model, _CHECKED, 1)
    plan = Plan(model.epochs * len(train) // BATCH, model.rate)
    metric = Metric.CLASS_ACCURACY if model.domain == "segments" else Metric.ACCURACY
    with Trainer(artifact) as trainer:
        every = max(1, plan.steps // 10)
        recent: list[float] = []

        def told(step: int, loss: float) -> None:
            recent.append(loss)
            if step % every == 0:
                seconds = time.monotonic() - began
                mean = float(np.mean(recent[-every:]))
                print(f"{model.key}: step {step} of {plan.steps}, loss {mean:.3f}, {seconds:.0f} s", file=sys.stderr)

        trainer.begin({})
        trainer.train(train, plan, told)
        accuracy = trainer.judge(checked, metric)
        weights = trainer.session.state()
    about = {"accuracy": accuracy, "seconds": time.monotonic() - began, "steps": plan.steps}
    print(f"{model.key}: pre-trained to {100 * accuracy:.1f} % in {about['seconds']:.0f} s", file=sys.stderr)
    if accuracy < model.least:
        raise ValueError(f"{model.key}: pre-training came to {accuracy:.1%} only; give it another rate or more epochs")
    write_whole(file.with_suffix(".json"), [json.dumps(about).encode()])
    write_whole(file, [save(weights)])
