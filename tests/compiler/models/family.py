"""What a model family has to say of itself to be tested, and the few things by which families differ.

Weights are random and scaled so that training is stable: two correct programs drift apart where it is chaotic, and deep
networks of batch norms with the statistics of random images are. Norms and biases are perturbed, so every one matters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pockengine.ir import Array

Batch = Callable[[int], dict[str, torch.Tensor]]
"""seed -> the named tensors of a batch"""
Outputs = Mapping[str, torch.Tensor]
Criterion = Callable[[Outputs, Outputs], torch.Tensor]
"""(the model's outputs, the batch's targets) -> scalar loss, as PyTorch computes it"""


def cross_entropy(outputs: Outputs, targets: Outputs) -> torch.Tensor:
    """Over every position: logits [..., classes], labels [...]."""
    logits = outputs["logits"]
    return nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets["labels"].reshape(-1))


def mse(outputs: Outputs, targets: Outputs) -> torch.Tensor:
    return nn.functional.mse_loss(outputs["output"], targets["labels"])


def computed(outputs: Outputs, targets: Outputs) -> torch.Tensor:
    """The model's own loss."""
    return outputs["loss"]


@dataclass(frozen=True)
class Family:
    """One model of a family at reduced size.

    build      the module, always with the same weights; `settle` them
    inputs     seed -> keyword arguments of a batch
    targets    seed -> what the recipe's loss reads beside the outputs; empty where the loss is an output of the model
    sparse     the `update` list of a sparse recipe
    lora       pattern of the modules that get adapters; None where LoRA does not apply
    loss       the recipe's loss
    criterion  the same loss in PyTorch
    brief      the tests train everything, on the interpreter; the benchmark does all of it in machine code
    fixed      arguments whose contents are part of the model, and the same in each batch"""

    name: str
    build: Callable[[], nn.Module]
    inputs: Batch
    targets: Batch
    sparse: Any
    lora: str | None = None
    loss: Any = "cross_entropy"
    criterion: Criterion = cross_entropy
    brief: bool = False
    fixed: Collection[str] = ()

    def feeds(self, seed: int) -> dict[str, Array]:
        """A batch as numpy arrays, targets included, without what is fixed."""
        tensors = {**self.inputs(seed), **self.targets(seed)}
        return {name: tensor.numpy() for name, tensor in tensors.items() if name not in self.fixed}

    @property
    def batch(self) -> int:
        """Samples of a batch."""
        return next(iter(self.inputs(0).values())).shape[0]


def brief(
    name: str, make: Callable[[], nn.Module], inputs: Batch, targets: Batch | None = None, **options: Any
) -> Family:
    """A family that computes its own loss, or is trained on targets with the loss given in `options`; its sparse recipe
    trains the last four parameters."""

    def build() -> nn.Module:
        torch.manual_seed(0)
        return settle(make(), inputs)

    if targets is None:
        options = {"loss": "output", "criterion": computed, **options}
    sparse = options.pop("sparse", [{"params": "*", "last": 4}])
    return Family(name, build, inputs, targets or (lambda seed: {}), sparse, brief=True, **options)


def drawn(**draws: Callable[[torch.Generator], torch.Tensor]) -> Batch:
    """A batch of several tensors, each drawn by its own function."""

    def draw(seed: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return {name: function(generator) for name, function in draws.items()}

    return draw


def normal(*shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda generator: torch.randn(*shape, generator=generator)


def uniform(*shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda generator: torch.rand(*shape, generator=generator)


def integers(count: int, *shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    """Each below `count`."""
    return lambda generator: torch.randint(0, count, shape, generator=generator)


def images(side: int, batch: int = 2, name: str = "pixel_values", channels: int = 3) -> Batch:
    """Noise, [batch, channels, side, side]."""
    return gaussian(name, batch, channels, side, side)


def gaussian(name: str, *shape: int) -> Batch:
    """Normally distributed numbers as one tensor."""
    return lambda seed: {name: torch.randn(*shape, generator=torch.Generator().manual_seed(seed))}


def tokens(vocabulary: int, batch: int = 2, length: int = 16) -> Batch:
    """Token ids [batch, length], and a mask that hides the padding (token 0) at the end of each sample."""

    def draw(seed: int) -> dict[str, torch.Tensor]:
        ids = torch.randint(1, vocabulary, (batch, length), generator=torch.Generator().manual_seed(seed))
        mask = (torch.arange(length) < (length - torch.arange(batch) * 3)[:, None]).long()
        return {"input_ids": ids * mask, "attention_mask": mask}

    return draw


def classes(count: int, *shape: int) -> Batch:
    """Labels of `shape` (the batch, and positions where each has its label), each below `count`."""
    return lambda seed: {"labels": torch.randint(0, count, shape, generator=torch.Generator().manual_seed(seed + 1000))}


def regression(*shape: int) -> Batch:
    """Labels that are tensors to come close to."""
    return lambda seed: {"labels": torch.randn(*shape, generator=torch.Generator().manual_seed(seed + 1000))}


def settle(module: nn.Module, inputs: Batch) -> nn.Module:
    """The module in evaluation mode with conditioned weights: He's for convolutions, batch norms with the statistics of
    16 batches, and everything that usually starts at zero or one a little off."""
    generator = torch.Generator().manual_seed(7)

    def noise(tensor: torch.Tensor) -> torch.Tensor:
        return torch.randn(tensor.shape, generator=generator)

    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * noise(parameter))
            elif parameter.ndim == 4:
                nn.init.kaiming_normal_(parameter, generator=generator)
        if norms:
            for norm in norms:
                norm.momentum = None  # statistics of all batches seen, that is of the one below
            batches = [inputs(seed) for seed in range(16)]
            module.train()(**{name: torch.cat([batch[name] for batch in batches]) for name in batches[0]})
        for norm in norms:
            norm.momentum = 0.1
            mean, variance = norm.running_mean, norm.running_var
            assert mean is not None and variance is not None
            mean.add_(0.1 * variance.sqrt() * noise(mean))
            variance.mul_(2.0 * torch.exp(0.2 * noise(variance)))
    return module.eval()


def named(result: Any) -> dict[str, torch.Tensor]:
    """What a module returned, under the names that the compiler gives its outputs."""
    return {"output": result} if isinstance(result, torch.Tensor) else dict(result)
