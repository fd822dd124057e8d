"""Rules resolved against real models: which parameters, which channels, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pockengine.errors import RecipeError
from pockengine.frontends import from_torch
from pockengine.recipe import ALL, FROZEN, Channels, Recipe, layers_of, parameter_order, resolve
from tests.compiler.models import zoo


class Mixed(nn.Module):
    """One weight of each kind: embedding, convolutions of signals and images, depthwise, transposed, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.signal = nn.Conv1d(6, 8, 3, padding=1)
        self.linear3 = nn.Linear(8, 12)
        self.image = nn.Conv2d(1, 4, 3, padding=1)
        self.depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.up = nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.norm = nn.BatchNorm2d(2)
        self.scale = nn.Parameter(torch.ones(2, 1, 1))
        self.head = nn.Linear(2, 3)
        self.unused = nn.Linear(2, 2)

    def forward(self, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.signal(self.table(tokens).transpose(1, 2)).transpose(1, 2)
        maps = self.depthwise(self.image(self.linear3(hidden).unsqueeze(1)))
        pooled = (self.norm(self.up(maps)) * self.scale).mean((2, 3))
        return {"logits": self.head(pooled), "extra": self.unused(pooled)}


@pytest.fixture(scope="module")
def mixed():
    torch.manual_seed(1)
    return from_torch(Mixed(), torch.randint(0, 11, (2, 5)))


def scheme(graph, update, **options):
    return resolve(Recipe(update=update, **options), graph)


def refused(graph, update, **options) -> str:
    with pytest.raises(RecipeError) as caught:
        scheme(graph, update, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_model_order_is_order_of_use(mixed):
    names = [value.name for value in parameter_order(mixed)]
    assert names.index("table.weight") < names.index("signal.weight") < names.index("linear3.weight")
    assert names.index("up.weight") < names.index("norm.weight") < names.index("scale") < names.index("head.weight")


def test_full_trains_what_the_loss_depends_on(mixed):
    trained = set(scheme(mixed, "full").trained())
    everything = {value.name for value in mixed.params}
    assert everything - trained == {"norm.running_mean", "norm.running_var", "unused.weight", "unused.bias"}
    assert "unused.weight" in scheme(mixed, "full", loss={"name": "mse", "output": "extra"}).trained()


def test_first_match_wins(mixed):
    found = scheme(mixed, [{"params": "linear3.weight", "channels": 2}, {"params": "linear3.*"}])
    assert isinstance(found.of("linear3.weight"), Channels)
    assert found.of("linear3.bias") == ALL
    assert found.of("head.weight") == FROZEN


def test_last_counts_among_the_matched(mixed):
    assert scheme(mixed, [{"params": "*.weight", "last": 2}]).trained() == ("norm.weight", "head.weight")
    assert len(scheme(mixed, [{"params": "*.bias", "last": 99}]).trained()) == 7


def test_last_leaves_the_others_to_later_rules(mixed):
    found = scheme(mixed, [{"params": "*.bias", "last": 1}, {"params": "signal.*"}])
    assert found.trained() == ("signal.weight", "signal.bias", "head.bias")


def test_head(mixed):
    assert scheme(mixed, "head").trained() == ("head.weight", "head.bias")
    assert scheme(zoo.graph("resnet18"), "head").trained() == ("classifier.1.weight", "classifier.1.bias")


def test_last_blocks_reach_to_the_end():
    trained = scheme(zoo.graph("bert"), {"last_blocks": 1}).trained()
    assert trained[0].startswith("bert.encoder.layer.1.")
    assert "classifier.bias" in trained
    assert not any("layer.0." in name for name in trained)
    assert "only 2 numbered blocks" in refused(zoo.graph("bert"), {"last_blocks": 3})


@pytest.mark.parametrize(
    "name, axis, size",
    [
        ("signal.weight", 1, 6),
        ("linear3.weight", 1, 8),
        ("depthwise.weight", 0, 4),
        ("up.weight", 0, 4),
        ("head.weight", 1, 2),
    ],
)
def test_channels_lie_along_the_input_axis(mixed, name, axis, size):
    found = scheme(mixed, [{"params": name, "channels": 0.5}]).of(name)
    weight = mixed.data[name]
    norms = np.sqrt((np.moveaxis(weight, axis, 0).reshape(size, -1).astype(np.float64) ** 2).sum(1))
    assert found == Channels(axis, tuple(sorted(np.argsort(-norms)[: size // 2])))


def test_all_channels_are_simply_all(mixed):
    assert scheme(mixed, [{"params": "head.weight", "channels": 1.0}]).of("head.weight") == ALL
    assert scheme(mixed, [{"params": "head.weight", "channels": 2}]).of("head.weight") == ALL


def test_channels_by_their_indices(mixed):
    assert scheme(mixed, [{"params": "linear3.weight", "channels": [7, 0]}]).of("linear3.weight") == Channels(1, (0, 7))
    assert scheme(mixed, [{"params": "depthwise.weight", "channels": [2]}]).of("depthwise.weight") == Channels(0, (2,))
    assert scheme(mixed, [{"params": "head.weight", "channels": [1, 0]}]).of("head.weight") == ALL


@pytest.mark.parametrize(
    "update, words",
    [
        ([{"params": "hed.*"}], ["'hed.*' matches no parameter", "head."]),
        ([{"params": "clasifier"}], ["matches no parameter"]),
        ([{"params": "*"}, {"params": "nothing"}], ["'nothing' matches no parameter"]),
        ([{"params": "head.bias", "channels": 0.5}], ["'head.bias'", "no input channels"]),
        ([{"params": "table.*", "channels": 0.5}], ["embedding table"]),
        ([{"params": "scale", "channels": 0.5}], ["'scale'", "no input channels"]),
        ([{"params": "head.weight", "channels": 3}], ["2 channels", "3"]),
        ([{"params": "head.weight", "channels": [1, 2]}], ["2 channels, numbered from 0", "channel 2"]),
        ([{"params": "head.bias", "channels": [0]}], ["'head.bias'", "no input channels"]),
        ([{"params": "norm.running_mean"}], ["running statistic", "batch_norm: train"]),
        ([{"params": "*running*"}], ["only running statistics"]),
        ([{"params": "unused.bias"}], ["does not depend"]),
    ],
)
def test_refused(mixed, update, words):
    message = refused(mixed, update)
    for word in words:
        assert word in message


def test_batch_of_the_recipe_is_that_of_the_model(mixed):
    message = refused(mixed, "full", batch=8)
    assert "batch 8" in message
    assert "batch of 2" in message


def test_unknown_loss_output(mixed):
    assert "no output 'logit'" in refused(mixed, "full", loss={"name": "mse", "output": "logit"})


def test_layers_tell_what_is_trained(mixed):
    found = scheme(mixed, ["head", {"params": "linear3.weight", "channels": 2}])
    layers = {layer.name: layer for layer in layers_of(mixed, found)}
    assert [p.trained for p in layers["head"].parameters] == ["all", "all"]
    (weight, bias) = layers["linear3"].parameters
    assert (weight.trained, weight.channels, bias.trained) == ("channels", 2, "frozen")
    assert layers["image"].shape == (2, 4, 5, 12)
    assert abs(sum(layer.share for layer in layers.values()) - 1) < 1e-9
    assert layers["linear3"].flops >= 2 * 2 * 5 * 8 * 12


class Partly(nn.Module):
    """Tensors that PyTorch does not train, each for another reason."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.probe, self.spare = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(4, 3)
        self.register_buffer("offset", torch.tensor(0.5))
        self.fixed = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) * self.fixed + self.offset + self.probe(x).detach()


LEFT_OUT = {
    "offset": "is a buffer of the module",
    "fixed": "has requires_grad=False in the module",
    "probe.weight": "gets no gradient of the loss",
    "probe.bias": "gets no gradient of the loss",
}


@pytest.fixture(scope="module")
def partly():
    torch.manual_seed(2)
    return from_torch(Partly(), torch.randn(2, 4))


def test_patterns_leave_out_what_pytorch_does_not_train(partly):
    found = scheme(partly, "full", loss="mse")
    assert found.trained() == ("fc.weight", "fc.bias")
    assert found.left_out == LEFT_OUT
    assert scheme(partly, "head", loss="mse").trained() == ("fc.weight", "fc.bias")
    assert scheme(partly, [{"params": "fc.*"}], loss="mse").left_out == {}


def test_by_its_name_a_frozen_parameter_is_trained(partly):
    assert scheme(partly, [{"params": "fixed"}], loss="mse").trained() == ("fixed",)


@pytest.mark.parametrize(
    "pattern, words",
    [
        ("spare.weight", ["'spare.weight' cannot be trained", "not used for what the module returns"]),
        ("spare.*", ["'spare.*' matches nothing that is trained", "not used"]),
        ("probe.weight", ["does not depend", "'stop_gradient'", "lets no gradient through"]),
    ],
)
def test_what_cannot_be_trained_says_why(partly, pattern, words):
    message = refused(partly, [{"params": pattern}], loss="mse")
    for word in words:
        assert word in message
