"""The program of one token, on the interpreter: at every position it says what the whole model says there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import pockengine as pock
from pockengine import interp
from pockengine.errors import RecipeError, UnsupportedOperatorError
from pockengine.generation import POSITION, TOKEN, Decoder, decoder_of
from pockengine.ir import Array, Graph
from tests.compiler.tokens import llama
from tests.sweeps import some

from . import models


def _imported(model: nn.Module, batch: int = 1) -> Graph:
    ids = torch.zeros(batch, models.TIME, dtype=torch.int64)
    return pock.from_torch(model, kwargs={"input_ids": ids})


def _check(decoder: Decoder, model: nn.Module, time: int) -> None:
    """Two texts one after the other: what the first left in the caches is not seen."""
    caches: dict[str, Array] = {}
    for seed in range(2):
        ids = torch.randint(0, models.VOCABULARY, (1, time), generator=torch.Generator().manual_seed(seed))
        wanted = model(input_ids=ids).logits[0].detach().numpy()
        for at in range(time):
            given = {TOKEN: ids[:, at : at + 1].numpy(), POSITION: np.array([at])}
            found = interp.step(decoder.graph, given, caches)["logits"]
            np.testing.assert_allclose(found[0, 0], wanted[at], rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("family", some(models.CAUSAL, 2))
def test_each_position_is_the_whole_models(family: str) -> None:
    name, sizes, cache = models.CAUSAL[family]
    model = models.made(family, name, sizes)
    decoder = decoder_of(_imported(model))
    assert [value.type.shape for value in decoder.graph.states] == [cache] * 4
    assert decoder.context == models.TIME and decoder.cache_bytes == 4 * 4 * int(np.prod(cache))
    _check(decoder, model, models.TIME)


INPUTS = {
    "positions": llama.INPUTS,
    "ids alone": ("input_ids",),
    "a mask": ("input_ids", "attention_mask"),
}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("inputs", INPUTS)
def test_inputs_and_samples_of_llama(inputs: str, batch: int) -> None:
    """Positions count from 0, nothing is masked, and of a batch one sample is left."""
    decoder = decoder_of(llama.graph_of(llama.module(), INPUTS[inputs], batch))
    assert {value.name: value.type.shape for value in decoder.graph.inputs} == {TOKEN: (1, 1), POSITION: (1,)}
    assert {value.type.shape for value in decoder.graph.states} == {(1, 2, 1, llama.TIME, 8)}
    _check(decoder, llama.module(), llama.TIME)


@pytest.mark.parametrize("family", models.OTHER)
def test_other_models_are_refused(family: str) -> None:
    name, sizes, why = models.OTHER[family]
    graph = _imported(models.made(family, name, sizes), batch=2)
    with pytest.raises(
        (RecipeError, UnsupportedOperatorError), match="'generate' needs a causal language model"
    ) as error:
        decoder_of(graph)
    assert why in str(error.value)


class _Mean(nn.Module):
    """Scores from the mean of all tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(models.VOCABULARY, 8)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden = self.table(input_ids)
        return (hidden + hidden.mean(1, keepdim=True)) @ self.table.weight.T


class _Classes(nn.Module):
    """Scores of classes of a whole sequence, from ids and numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(models.VOCABULARY, 8)

    def forward(self, input_ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (self.table(input_ids) * x).mean(1)


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(UnsupportedOperatorError, match="all of what it makes is needed at once"):
        decoder_of(_imported(_Mean().eval()))
    ids, x = torch.zeros(2, 5, dtype=torch.int64), torch.ones(2, 5, 8)
    with pytest.raises(RecipeError, match=r"reads 'input_ids' i64\[2,5\], 'x' f32\[2,5,8\], makes no scores"):
        decoder_of(pock.from_torch(_Classes().eval(), (ids, x)))
