"""Ten steps on packed prompts and answers: losses and weights are those of transformers and PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils import parametrize

import pockengine as pock
from pockengine.ir import Array
from pockengine.tokens import token_dataset

from . import llama

Batch = dict[str, Array]


def _batches(folder: Path) -> Iterator[Batch]:
    """Ten packed batches; in the fourth a sequence counts nothing, in the seventh none does."""
    tensors = token_dataset(llama.documents(folder, count=60), llama.LAYOUT).tensors
    for step in range(10):
        rows = [(step * llama.BATCH + one) % len(tensors["labels"]) for one in range(llama.BATCH)]
        batch = {name: array[rows].copy() for name, array in tensors.items()}
        batch["labels"][: {3: 1, 6: llama.BATCH}.get(step, 0)] = -100
        yield batch


class _Adapted(torch.nn.Module):
    """W + 2 B A, the scale being alpha / rank."""

    def __init__(self, down: Array, up: Array) -> None:
        super().__init__()
        self.down, self.up = (torch.nn.Parameter(torch.from_numpy(one.copy())) for one in (down, up))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + 2 * self.up @ self.down


def _last_block(model: torch.nn.Module, session: pock.Session) -> None:
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("layers.1" in name)


def _all(model: torch.nn.Module, session: pock.Session) -> None:
    pass


def _adapters(model: torch.nn.Module, session: pock.Session) -> None:
    model.requires_grad_(False)
    state = session.state()
    for name, module in list(model.named_modules()):
        if name.endswith(("q_proj", "v_proj")):
            halves = (state[f"{name}.lora_{one}.weight"] for one in "AB")
            parametrize.register_parametrization(module, "weight", _Adapted(*halves))


RECIPES: dict[str, tuple[dict[str, Any], Callable[[torch.nn.Module, pock.Session], None]]] = {
    "full": ({"update": "full"}, _all),
    "sparse": ({"update": [{"params": "*layers.1.*"}]}, _last_block),
    "lora": ({"update": None, "lora": {"params": ["*.q_proj", "*.v_proj"], "rank": 4, "alpha": 8}}, _adapters),
}


@pytest.mark.parametrize("name", RECIPES)
def test_losses_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    given, prepare = RECIPES[name]
    given = {key: value for key, value in given.items() if value is not None or key != "update"}
    recipe = pock.Recipe(loss="causal_lm", optimizer={"name": "sgd", "lr": 0.2}, **given)
    session = pock.compile(llama.graph(), recipe, threads=1).load()
    model = copy.deepcopy(llama.module())
    prepare(model, session)
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.2)
    ours, theirs = [], []
    for batch in _batches(tmp_path):
        optimizer.zero_grad()
        loss = model(**llama.as_torch(batch)).loss
        counts = bool((batch["labels"] != -100).any())
        if counts:  # else it is 0 / 0 in PyTorch, and 0 here
            loss.backward()
            optimizer.step()
        theirs.append(float(loss.detach()) if counts else 0.0)
        ours.append(session.step(batch))
    np.testing.assert_allclose(ours, theirs, rtol=2e-5)
    assert ours[0] != ours[5] and ours[6] == 0
    trained = session.state()
    for key, parameter in model.named_parameters():
        if key in trained and parameter.requires_grad:
            np.testing.assert_allclose(trained[key], parameter.detach().numpy(), rtol=1e-3, atol=2e-5)


def test_documents_of_a_sequence_do_not_see_each_other(tmp_path: Path) -> None:
    """The loss of packed documents is the mean over their tokens of what each gives alone."""
    tensors = token_dataset(llama.documents(tmp_path), llama.LAYOUT).tensors
    session = pock.compile(llama.graph(), llama.recipe(), threads=1).load()
    batch = {name: array[: llama.BATCH] for name, array in tensors.items()}
    total, count = 0.0, 0
    for row in range(llama.BATCH):
        borders = [*np.flatnonzero(batch["position_ids"][row] == 0), llama.TIME]
        for begin, end in pairwise(borders):
            ids, labels = (torch.from_numpy(batch[name][row : row + 1, begin:end]) for name in ("input_ids", "labels"))
            counted = int((labels[:, 1:] != -100).sum())
            if counted:
                total += float(llama.module()(input_ids=ids, labels=labels).loss.detach()) * counted
                count += counted
    assert count == int((batch["labels"] != -100).sum())
    assert session.step(batch) == pytest.approx(total / count, rel=1e-5)
