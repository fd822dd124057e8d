"""Modules whose tensors lie in safetensors files: imported and trained without being loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import pockengine as pock
from pockengine.errors import ModelError
from pockengine.frontends.torch import importer
from pockengine.interp import evaluate

TOKENS = torch.tensor([[1, 5, 2, 7]])


class Tied(nn.Module):
    """An embedding that is its own head, a layer, and a buffer that no file holds."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc, self.head = nn.Embedding(16, 8), nn.Linear(8, 8), nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("steps", torch.tensor(3.0))
        self.register_buffer("scale", torch.full((8,), 2.0), persistent=False)

    def _init_weights(self, part: nn.Module) -> None:
        if part is self:
            nn.init.constant_(part.get_buffer("scale"), 2.0)

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.fc(self.embed(tokens))
        logits: Tensor = self.head(torch.relu(h * self.scale.to(h.dtype)))
        return logits


def _saved(folder: Path, dtype: torch.dtype = torch.float32) -> Tied:
    torch.manual_seed(0)
    module = Tied().to(dtype)
    tensors = {name: x.contiguous() for name, x in module.state_dict().items() if name != "head.weight"}
    save_file(tensors, folder / "model.safetensors")
    return module


def _empty() -> Tied:
    with torch.device("meta"):
        return Tied()


def test_a_module_on_the_meta_device_is_imported_with_its_weights(tmp_path: Path) -> None:
    module, empty = _saved(tmp_path), _empty()
    graph = pock.from_checkpoint(empty, tmp_path, (TOKENS,))
    found = evaluate(graph, {"tokens": TOKENS.numpy()})["output"]
    np.testing.assert_allclose(found, module(TOKENS).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert {value.name for value in graph.params} == {name for name, _ in module.named_parameters()}
    assert all(x.is_meta for x in (*empty.parameters(), *empty.buffers()))
    assert empty.head.weight is empty.embed.weight


def test_shapes_alone_give_the_same_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _saved(tmp_path)
    computed = pock.from_checkpoint(_empty(), tmp_path, (TOKENS,))
    monkeypatch.setattr(importer, "_MOST_BYTES", 0)
    monkeypatch.setattr(Tied, "forward", _without_contents(Tied.forward))
    traced = pock.from_checkpoint(_empty(), str(tmp_path), (TOKENS,))
    assert [(node.op, node.attrs) for node in traced.nodes] == [(node.op, node.attrs) for node in computed.nodes]
    assert not traced.data["fc.weight"].flags.writeable


def _without_contents(forward: Callable[[Tied, Tensor], Tensor]) -> Callable[[Tied, Tensor], Tensor]:
    """The forward pass where nothing may be computed."""

    def checked(self: Tied, tokens: Tensor) -> Tensor:
        result = forward(self, tokens)
        assert type(result) is not Tensor
        return result

    return checked


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", ["c", "emulated"])
def test_weights_of_16_bits_are_trained_in_f32(dtype: torch.dtype, backend: str, tmp_path: Path) -> None:
    """PyTorch in f32 from the same rounded weights, a step and its update."""
    module = _saved(tmp_path, dtype).float()
    graph = pock.from_checkpoint(_empty(), tmp_path, (TOKENS,))
    recipe = pock.Recipe("cross_entropy", {"name": "sgd", "lr": 0.5}, update=[{"params": "fc.*"}], batch=1)
    artifact = pock.compile(graph, recipe, threads=1, backend=backend)
    labels = torch.tensor([[3, 1, 0, 15]])
    loss = nn.functional.cross_entropy(module(TOKENS).reshape(4, 16), labels.reshape(4))
    loss.backward()
    with artifact.load() as session:
        found = session.step({"tokens": TOKENS.numpy(), "labels": labels.numpy()})
        assert found == pytest.approx(loss.item(), rel=1e-5)
        trained = session.state()["fc.weight"]
    assert module.fc.weight.grad is not None
    wanted = module.fc.weight.detach() - 0.5 * module.fc.weight.grad
    np.testing.assert_allclose(trained, wanted.numpy(), rtol=1e-5, atol=1e-6)
    (exported,) = artifact.export(tmp_path / "again.safetensors", weights={"fc.weight": trained})
    again = _empty()
    again.load_state_dict(load_file(exported), assign=True, strict=False)
    assert again.fc.weight.dtype == again.embed.weight.dtype == dtype
    np.testing.assert_array_equal(again.fc.weight.detach().float(), torch.from_numpy(trained).to(dtype).float())


def test_what_does_not_fit_the_module_is_refused(tmp_path: Path) -> None:
    module = _saved(tmp_path)
    state = {name: x for name, x in module.state_dict().items() if name != "head.weight"}
    with pytest.raises(ModelError, match="on the meta device, without contents: give the folder"):
        pock.from_torch(_empty(), (TOKENS,))
    for change, message in (
        ({"fc.weight": None}, "has no tensor 'fc.weight'"),
        ({"fc.weight": torch.zeros(8, 9)}, r"'fc.weight' is \[8, 9\] in .* and \[8, 8\] in the module"),
        ({"fc.weight": torch.zeros(8, 8, dtype=torch.int8)}, "quantised checkpoints are not read"),
    ):
        save_file({name: x for name, x in {**state, **change}.items() if x is not None}, tmp_path / "model.safetensors")
        with pytest.raises(ModelError, match=message):
            pock.from_checkpoint(_empty(), tmp_path, (TOKENS,))
    save_file({**state, "extra": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.warns(UserWarning, match="1 tensors of .* are not in Tied and left out, such as 'extra'"):
        pock.from_checkpoint(_empty(), tmp_path, (TOKENS,))


def test_a_buffer_that_nobody_computes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _saved(tmp_path)
    monkeypatch.delattr(Tied, "_init_weights")
    with pytest.raises(ModelError, match="the buffer 'scale' is on the meta device and in no file"):
        pock.from_checkpoint(_empty(), tmp_path, (TOKENS,))
