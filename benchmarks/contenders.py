"""The frameworks under comparison, each as one function that runs a whole training step and returns the loss."""

import gc
import json
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.workload import INPUT, LEARNING_RATE, MOMENTUM, Case, make_batch, make_model, trained_prefixes

PEERS = ("eager", "torch.compile")
OURS = "pockengine"


@dataclass(frozen=True)
class Contender:
    """`step` runs one training step and returns the loss before the update; `facts` are figures of the build."""

    name: str
    step: Callable[[], float]
    facts: dict[str, Any] = field(default_factory=dict)


def make(name: str, case: Case, threads: int) -> Contender:
    """Build the contender `name` (of PEERS, or OURS) for `case`; compilation happens here or in the first steps."""
    return _ours(case, threads) if name == OURS else _peer(name, case, threads)


def _peer(name: str, case: Case, threads: int) -> Contender:
    torch.set_num_threads(threads)
    model = make_model(case.scheme)
    images, labels = (torch.from_numpy(array) for array in make_batch(case.batch))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=LEARNING_RATE, momentum=MOMENTUM, fused=True)

    def loss_of(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(images).logits, labels)

    forward = torch.compile(loss_of) if name == "torch.compile" else loss_of

    def step() -> float:
        optimizer.zero_grad()
        loss = forward(images, labels)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return Contender(name, step)


def _ours(case: Case, threads: int) -> Contender:
    import pockengine as pock

    images, labels = make_batch(case.batch)
    graph = pock.from_torch(make_model("full"), (torch.from_numpy(images),))
    recipe = pock.Recipe(
        loss="cross_entropy",
        optimizer={"name": "sgd", "lr": LEARNING_RATE, "momentum": MOMENTUM},
        update=[{"params": f"{prefix}*"} for prefix in trained_prefixes(case.scheme)],
        batch=case.batch,
    )
    artifact = pock.compile(graph, recipe, target="host", threads=threads)
    session = artifact.load()
    feed = {INPUT: images, "labels": labels}
    return Contender(OURS, lambda: session.step(feed), {"summary": artifact.summary, "artifact": artifact})


def release() -> None:
    """Forget what a case compiled, so that the next case starts clean."""
    torch.compiler.reset()
    gc.collect()


def executable_report(contender: Contender, steps: int, threads: int) -> dict[str, Any]:
    """The report of `model bench`, run from the artifact as a device would run it."""
    with tempfile.TemporaryDirectory(prefix="pock-bench-") as folder:
        packed, report = Path(folder) / "model.pock", Path(folder) / "report.json"
        contender.facts["artifact"].save(packed)
        with zipfile.ZipFile(packed) as members:
            members.extractall(folder)
        executable = Path(folder) / "bin" / "model"
        executable.chmod(0o755)
        command = [str(executable), "bench", "--steps", str(steps), "--threads", str(threads), "--report", str(report)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return dict(json.loads(report.read_text()))
