"""What a round's aggregation is told, and what it tells: JSON files in its folder."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from pock_server.weights.tensors import Tensor

TASK, OUTCOME = "task.json", "outcome.json"
WEIGHTS, MOMENTS = "weights.delta", "moments.safetensors"
"""What is made: the weights after the round, and FedAdam's memory of rounds before."""


class Rule(StrEnum):
    """How what the devices trained becomes one step of the weights."""

    FEDAVG = "fedavg"
    """The mean of the updates, by samples (McMahan et al. 2017)."""
    FEDADAM = "fedadam"
    """That mean as the gradient of Adam (Reddi et al. 2021)."""
    MEDIAN = "median"
    """The median of each number, every device counting once (Yin et al. 2018): few that lie cannot move it far."""


@dataclass(frozen=True)
class Contribution:
    """What one device sent: a file of the folder, and on how many samples it says that it trained."""

    run_id: str
    path: str
    samples: int


@dataclass(frozen=True)
class Options:
    """`clip_norm` bounds the length of an update, `norm_bound` is in medians of the round's lengths, `noise` in clip
    norms; without it, each is off. `noise_key` is secret: hexadecimal."""

    rule: Rule
    server_learning_rate: float
    clip_norm: float | None
    norm_bound: float | None
    noise: float | None
    noise_key: str

    @property
    def equal(self) -> bool:
        """Whether each device counts once, whatever its samples: noise hides one device only then."""
        return self.noise is not None or self.rule is Rule.MEDIAN


@dataclass(frozen=True)
class Task:
    """One round. `current` and `moments` are None before the first one. Paths are relative to the folder."""

    base: str
    base_digest: str
    current: str | None
    moments: str | None
    trained: dict[str, Tensor]
    contributions: tuple[Contribution, ...]
    options: Options


@dataclass(frozen=True)
class Accepted:
    """A contribution that counts: the length of its update, and its part of the step."""

    run_id: str
    norm: float
    clipped: bool
    part: float


@dataclass(frozen=True)
class Rejected:
    """A contribution that does not count, and why."""

    run_id: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What became of the contributions, in their order, and the length of the step of the weights."""

    accepted: tuple[Accepted, ...]
    rejected: tuple[Rejected, ...]
    step_norm: float


def write_task(folder: Path, task: Task) -> None:
    """Write down what is to be done."""
    (folder / TASK).write_text(json.dumps(asdict(task)), "utf-8")


def read_task(folder: Path) -> Task:
    """What is to be done."""
    told = json.loads((folder / TASK).read_text("utf-8"))
    trained = {name: Tensor(one["dtype"], tuple(one["shape"])) for name, one in told.pop("trained").items()}
    contributions = tuple(Contribution(**one) for one in told.pop("contributions"))
    options = told.pop("options")
    return Task(
        **told,
        trained=trained,
        contributions=contributions,
        options=Options(**{**options, "rule": Rule(options["rule"])}),
    )


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Write down what was done."""
    (folder / OUTCOME).write_text(json.dumps(asdict(outcome)), "utf-8")


def read_outcome(folder: Path) -> Outcome:
    """What was done."""
    told = json.loads((folder / OUTCOME).read_text("utf-8"))
    return Outcome(
        accepted=tuple(Accepted(**one) for one in told["accepted"]),
        rejected=tuple(Rejected(**one) for one in told["rejected"]),
        step_norm=told["step_norm"],
    )
