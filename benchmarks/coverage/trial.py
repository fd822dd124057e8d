"""One tiny architecture of `transformers`: three steps of SGD in PyTorch, the same compiled, and how they compare.

The loss is the mean of squares of the differences between every output that has a gradient and fixed random targets, so
that no head needs to be known. The rate is such that a step lowers the loss by about a twentieth: changes are then far
above rounding, and training does not become chaotic.
"""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn

from pockengine import interp
from pockengine.compile import Request, Scope, compile, plan_programs
from pockengine.errors import PockError
from pockengine.frontends import from_torch
from pockengine.frontends.torch.importer import named_tensors
from pockengine.ir import Array, Graph
from pockengine.recipe import SGD, Recipe
from pockengine.targets import get
from pockengine.verify import Verdict, compare_changes, compare_losses
from pockengine.verify.sides.torch_double import in_double

from .architectures import Architecture
from .inputs import BATCH, Inputs, fixed, inputs
from .outcomes import Engine, Outcome, Until
from .ties import sorts_equals
from .tiny import configuration

STEPS = 3
LOWERED = 0.05
"""What the first step takes of the loss, if it were linear."""
LARGEST = 5e3
"""Outputs with larger elements (scores of what is masked) take no part in the loss."""
SHOWN = 4
"""Tensors named in the reason of a difference."""


@dataclass
class Trial:
    """What is known of one architecture so far; `outcome` and `reason` once it is over.

    stage     the one begun last
    inputs    shapes by name
    outputs   names of those in the loss
    seconds   by stage
    change    largest difference of a tensor's change, relative to PyTorch's change, where float32 decided
    loss      largest difference of a loss, relative
    rounding  tensors for which float64 had to decide"""

    model_type: str
    class_name: str
    stage: str = ""
    outcome: str = ""
    reason: str = ""
    parameters: int = 0
    inputs: dict[str, list[int]] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    change: float | None = None
    loss: float | None = None
    rounding: int = 0

    def ended(self, outcome: Outcome, reason: str = "") -> Trial:
        self.outcome, self.reason = outcome.value, " ".join(reason.split())
        return self

    def to_mapping(self) -> dict[str, Any]:
        return asdict(self)


Note = Callable[[Trial], None]
"""Hears of every stage that a trial begins, for what ends its process."""


@dataclass(frozen=True)
class Trained:
    """What training left: the loss of each step, tensors by name, and the names of those that ever had a gradient."""

    losses: list[float]
    tensors: dict[str, Array]
    with_gradient: list[str]


@dataclass(frozen=True)
class Twin:
    """The PyTorch side.

    module   in evaluation mode
    batches  keyword arguments of each step
    targets  output -> what it is compared with; for an output that is one number, nothing: it is a loss itself
    rate     of SGD"""

    module: nn.Module
    batches: list[Inputs]
    targets: dict[str, torch.Tensor]
    rate: float = 0.0

    def loss(self, module: nn.Module, step: int, kind: torch.dtype) -> torch.Tensor:
        batch = {name: _cast(tensor, kind) for name, tensor in self.batches[step].items()}
        torch.manual_seed(0)
        found = dict(named_tensors(module(**batch)))
        terms = [
            nn.functional.mse_loss(found[name], target.to(kind)) if target.ndim else found[name]
            for name, target in self.targets.items()
        ]
        return torch.stack([term.to(kind) for term in terms]).sum()

    def trained(self, kind: torch.dtype = torch.float32) -> Trained:
        """After `STEPS` steps from the module's weights, computed in `kind`."""
        module = copy.deepcopy(self.module)
        with in_double() if kind is torch.float64 else contextlib.nullcontext():
            # Not `to(kind)`, which takes the imaginary part of complex buffers away.
            return self._trained(module.double() if kind is torch.float64 else module.float(), kind)

    def _trained(self, module: nn.Module, kind: torch.dtype) -> Trained:
        parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        losses: list[float] = []
        reached: dict[str, None] = {}
        for step in range(STEPS):
            for parameter in parameters.values():
                parameter.grad = None
            loss = self.loss(module, step, kind)
            loss.backward()
            with torch.no_grad():
                for parameter in parameters.values():
                    if parameter.grad is not None:
                        parameter.sub_(self.rate * parameter.grad)
            losses.append(loss.item())
            reached |= dict.fromkeys(name for name, p in parameters.items() if p.grad is not None)
        return Trained(losses, _tensors(module), list(reached))


def attempt(architecture: Architecture, until: Until, engine: Engine, note: Note) -> Trial:
    """Try one architecture."""
    trial = Trial(architecture.model_type, architecture.class_name)
    try:
        with _Stage(trial, "torch", note):
            twin = _twin(architecture, trial)
            expected = twin.trained()
    except Exception as error:
        return trial.ended(Outcome.UNTRAINED, _sentence(error))
    if not all(map(math.isfinite, expected.losses)):
        return trial.ended(Outcome.UNTRAINED, f"its losses are {_figures(expected.losses)}")
    if until is Until.TORCH:
        return trial.ended(Outcome.TRAINS)
    try:
        with _Stage(trial, "import", note):
            graph = from_torch(twin.module, kwargs=twin.batches[0], fixed=fixed(trial.model_type, twin.batches[0]))
    except PockError as error:
        compared = "is not what the module computes" in str(error)
        open_order = compared and sorts_equals(twin.module, twin.batches[:1])
        return trial.ended(Outcome.OPEN if open_order else Outcome.REFUSED_IMPORT, str(error))
    except Exception as error:
        return trial.ended(Outcome.FAILS, f"import: {_sentence(error)}")
    if until is Until.IMPORTED:
        return trial.ended(Outcome.IMPORTS)
    try:
        found = (_compiled if engine.compiles(architecture) else _interpreted)(twin, graph, trial, note)
    except PockError as error:
        return trial.ended(Outcome.REFUSED, str(error))
    except Exception as error:
        return trial.ended(Outcome.FAILS, f"{trial.stage}: {_sentence(error)}")
    return _compared(twin, found, expected, trial)


class _Stage:
    """Times a stage of a trial."""

    def __init__(self, trial: Trial, name: str, note: Note) -> None:
        self.trial, self.name = trial, name
        trial.stage = name
        note(trial)

    def __enter__(self) -> None:
        self.started = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.trial.seconds[self.name] = round(time.perf_counter() - self.started, 2)


def build(architecture: Architecture) -> nn.Module:
    """The tiny model with random weights, in evaluation mode; nothing in it is all zeros or all ones."""
    torch.manual_seed(0)
    kind = getattr(transformers, architecture.class_name)
    model: nn.Module = kind(configuration(architecture.model_type)).eval().float()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.numel():
                continue
            if not parameter.isfinite().all() or parameter.abs().max() > 100.0:
                parameter.copy_(0.02 * torch.randn(parameter.shape, generator=generator))
            elif parameter.ndim == 1 or parameter.min() == parameter.max():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        for norm in model.modules():
            if isinstance(norm, nn.modules.batchnorm._BatchNorm) and norm.running_var is not None:
                norm.running_var.mul_(torch.exp(0.2 * torch.randn(norm.running_var.shape, generator=generator)))
    return model


def _twin(architecture: Architecture, trial: Trial) -> Twin:
    module = build(architecture)
    trial.parameters = sum(parameter.numel() for parameter in module.parameters())
    first, *others = (inputs(module, seed) for seed in range(STEPS))
    part_of_the_model = {name: first[name] for name in fixed(trial.model_type, first)}
    batches = [first, *(batch | part_of_the_model for batch in others)]
    trial.inputs = {name: list(tensor.shape) for name, tensor in batches[0].items()}
    # Of a copy: some modules keep what they computed.
    probe = copy.deepcopy(module)
    found, again = (_seeded(probe, batches[0], seed) for seed in (0, 1))
    if any(not torch.equal(a, again[name]) for name, a in found.items() if not a.isnan().any()):
        raise ValueError("two runs with one input differ: it draws random numbers in evaluation mode, too")
    generator = torch.Generator().manual_seed(1000)
    targets = {
        name: torch.randn(output.shape, generator=generator)
        for name, output in found.items()
        if output.is_floating_point()
        and output.requires_grad
        and output.numel()
        and output.detach().abs().max() < LARGEST
    }
    if not targets:
        raise ValueError("none of its outputs has a gradient")
    # A recipe's losses are means over samples: other outputs (all images' features in one list) only where alone.
    samples = _samples(batches[0], fixed(trial.model_type, batches[0]))
    targets = {name: x for name, x in targets.items() if x.ndim and x.shape[0] % samples == 0} or targets
    trial.outputs = list(targets)
    return Twin(module, batches, targets, _rate(Twin(module, batches, targets)))


def _samples(batch: Inputs, constant: Iterable[str]) -> int:
    """Samples of a batch, as the compiler counts them: an input may have several rows a sample."""
    return math.gcd(*(len(tensor) for name, tensor in batch.items() if name not in constant)) or BATCH


def _seeded(module: nn.Module, batch: Inputs, seed: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return {name: x for name, x in named_tensors(module(**batch)) if isinstance(x, torch.Tensor)}


def _rate(twin: Twin) -> float:
    module = copy.deepcopy(twin.module)
    loss = twin.loss(module, 0, torch.float32)
    loss.backward()
    squares = sum(float(p.grad.double().square().sum()) for p in module.parameters() if p.grad is not None)
    if not squares:
        raise ValueError("every gradient is zero")
    return min(0.1, LOWERED * abs(loss.item()) / squares)


def _recipe(twin: Twin) -> Recipe:
    losses = [
        {"name": "mse", "output": name, "target": _target(name)} if target.ndim else {"name": "output", "output": name}
        for name, target in twin.targets.items()
    ]
    return Recipe(loss=losses, optimizer=SGD(lr=twin.rate, momentum=0.0, weight_decay=0.0))


def _target(output: str) -> str:
    return f"{output}_target"


def _compiled(twin: Twin, graph: Graph, trial: Trial, note: Note) -> Trained:
    """The same steps by machine code."""
    with _Stage(trial, "compile", note):
        artifact = compile(graph, _recipe(twin), target="host", threads=1)
    shapes = {port.name: port.shape for port in artifact.manifest.inputs}
    with _Stage(trial, "run", note), artifact.load() as session:
        losses = [session.step(_arrays(twin, step, shapes)) for step in range(STEPS)]
        return Trained(losses, session.state(), [])


def _interpreted(twin: Twin, graph: Graph, trial: Trial, note: Note) -> Trained:
    """The same steps by the interpreter, of the graph that would become machine code."""
    with _Stage(trial, "plan", note):
        planned = plan_programs(Request(graph, _recipe(twin), get("host"), 1, scope=Scope.TRAINING))
    step = planned.programs["train"].graph
    shapes = {value.name: value.type.shape for value in step.inputs}
    tensors = dict(step.data)
    with _Stage(trial, "run", note), np.errstate(all="ignore"):
        outputs = [interp.step(step, _arrays(twin, index, shapes), tensors) for index in range(STEPS)]
    kept = {value.name for value in graph.params}
    return Trained([float(found["loss"]) for found in outputs], {k: v for k, v in tensors.items() if k in kept}, [])


def _arrays(twin: Twin, step: int, shapes: Mapping[str, Sequence[int]]) -> dict[str, Array]:
    """What a step reads, by name: the module may take more than its outputs need, and a target's rows are put together
    by samples."""
    batch = twin.batches[step] | {_target(name): target for name, target in twin.targets.items()}
    return {name: batch[name].numpy().reshape(shape) for name, shape in shapes.items()}


def _compared(twin: Twin, found: Trained, expected: Trained, trial: Trial) -> Trial:
    initial = _tensors(twin.module)
    # What the import left out stays as it is.
    found = replace(found, tensors={**initial, **found.tensors})
    referee = cache(partial(twin.trained, torch.float64))
    losses = compare_losses(found.losses, expected.losses, lambda: referee().losses)
    names = expected.with_gradient
    changes = compare_changes(initial, found.tensors, expected.tensors, names, STEPS, lambda: referee().tensors)
    trial.loss = max(abs(a - b) / max(abs(b), 1e-30) for a, b in zip(found.losses, expected.losses, strict=True))
    trial.change = max((change.error for change in changes if change.verdict is Verdict.SAME), default=0.0)
    trial.rounding = sum(change.verdict is Verdict.ROUNDING for change in changes)
    touched = [
        name
        for name, tensor in found.tensors.items()
        if name not in names and name in initial and not np.array_equal(tensor, initial[name])
    ]
    problems = []
    if Verdict.DIFFERENT in losses:
        problems.append(f"the losses {_figures(found.losses)} should be {_figures(expected.losses)}")
    if different := [f"{change.name} by {change.error:.1e}" for change in changes if not change.agrees]:
        problems.append(f"{len(different)} of {len(names)} changes are off: {_listed(different)}")
    if touched:
        problems.append(f"changed without a gradient: {_listed(touched)}")
    if not problems:
        return trial.ended(Outcome.AGREES)
    open_order = sorts_equals(twin.module, twin.batches)
    return trial.ended(Outcome.OPEN if open_order else Outcome.WRONG, "; ".join(problems))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _figures(losses: list[float]) -> str:
    return ", ".join(f"{loss:.6g}" for loss in losses)


def _cast(tensor: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    return tensor.to(kind) if tensor.is_floating_point() else tensor


def _tensors(module: nn.Module) -> dict[str, Array]:
    """Parameters and buffers of the state, tied ones once, under their first name."""
    kept = module.state_dict().keys()
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {
        name: tensor.detach().numpy().copy()
        for name, tensor in tensors.items()
        if tensor.is_floating_point() and (name in kept or isinstance(tensor, nn.Parameter))
    }


def _sentence(error: BaseException) -> str:
    """Kind, first line and place of an error that is not ours."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    code = frames.tb_frame.f_code if frames is not None else None
    place = f" ({code.co_filename.rpartition('/')[2]}:{frames.tb_lineno})" if code and frames else ""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:300]}{place}"
