"""Our side: a real service, a real build, and real agents as processes of this machine, of which some may lie."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file as load_torch

from benchmarks.federated.data import device_name, read_data
from benchmarks.federated.liar import Lie
from benchmarks.federated.scene import BATCH, RECIPE, Network, Plan, accuracy, untrained
from demo import fleet
from demo.processes import Process, free_port, program, stop, wait_until_ready
from pock_client import Client, Federation

DATA = "digits"
"""What each device calls its own data, which never leave it."""
WAIT_SECONDS = 3600.0


@dataclass
class Service:
    """`pock-server serve` on a folder of its own, which can be killed and started again."""

    folder: Path
    port: int = field(default_factory=free_port)
    key: str = ""
    process: Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Serve, and return when it answers."""
        data, log = str(self.folder / "data"), self.folder / "service.log"
        Path(data).mkdir(parents=True, exist_ok=True)
        if not self.key:
            command = [program("pock-server"), "create-key", "--name", "benchmark", "--data-dir", data, "--json"]
            made = subprocess.run(command, capture_output=True, text=True, check=True)
            self.key = str(json.loads(made.stdout)["key"])
        command = [program("pock-server"), "serve", "--port", str(self.port), "--data-dir", data]
        with log.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        wait_until_ready(f"{self.url}/readyz", self.process, log)

    def kill(self) -> None:
        """As a power cut does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @contextlib.contextmanager
    def serving(self) -> Iterator[Client]:
        """The service for the duration of the block."""
        self.start()
        try:
            with Client(self.url, self.key, patience=120) as client:
                yield client
        finally:
            if self.process is not None:
                stop(self.process)


def export(folder: Path, network: Network) -> Path:
    """The untrained network as an ONNX file."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    path = folder / "network.onnx"
    torch.onnx.export(
        network, (torch.zeros(BATCH, 1, 8, 8),), str(path), dynamo=True, optimize=False, external_data=False,
        verbose=False, input_names=["image"], output_names=["logits"],
    )  # fmt: skip
    return path


def prepare(client: Client, folder: Path, plan: Plan) -> str:
    """Push the network, build it, and write what it trains to `trained.json`; the build's id."""
    model = client.models.push(export(folder, untrained(plan.seed)))
    build = client.builds.create(model=model, recipe=RECIPE, target="host", threads=1, name="federated")
    build = client.builds.wait(build.id, timeout=WAIT_SECONDS)
    tensors = client.artifacts.get(str(build.artifact_digest)).tensors
    trained = {one.name: one.channels for one in tensors if one.role == "param" and one.trained != "frozen"}
    (folder / "trained.json").write_text(json.dumps(trained))
    return build.id


@dataclass(frozen=True)
class Scene:
    """A service with the data of a plan, which lie in `folder`, and with the build that all its federations train."""

    folder: Path
    plan: Plan
    service: Service
    client: Client
    build: str


@contextlib.contextmanager
def serving(folder: Path, plan: Plan) -> Iterator[Scene]:
    """A scene for the duration of the block."""
    service = Service(folder / "service")
    with service.serving() as client:
        yield Scene(folder, plan, service, client, prepare(client, folder, plan))


@contextlib.contextmanager
def agents(scene: Scene, lies: Sequence[Lie] = ()) -> Iterator[None]:
    """All agents of the plan at work, with their data told of; the last ones lie. They are revoked at the end."""
    with ExitStack() as stack:
        enrolled = []
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pock-agents-")))
        for number in range(scene.plan.agents):
            device = fleet.Device(device_name(number), "host", home / device_name(number))
            enrolled.append(fleet.enroll(device, scene.service.url, scene.client))
            stack.callback(scene.client.devices.revoke, enrolled[-1])
            data = scene.folder / f"{device.name}.safetensors"
            keep = [program("pock-agent"), "data", "add", DATA, str(data), "--state-dir", str(device.folder)]
            subprocess.run(keep, check=True, capture_output=True)
            liar = number - (scene.plan.agents - len(lies))
            command = [program("pock-agent"), "run", "--state-dir", str(device.folder)]
            if liar >= 0:
                command = [sys.executable, "-m", "benchmarks.federated.liar", str(lies[liar]), str(device.folder)]
            log = stack.enter_context(fleet.log_of(device).open("ab"))
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            stack.callback(stop, process)
        while {*enrolled} - {one.device_id for one in scene.client.datasets.list(name=DATA)}:
            time.sleep(0.5)
        yield


def train(scene: Scene, **options: Any) -> Federation:
    """Begin the federation of a plan."""
    plan = scene.plan
    return scene.client.federations.create(
        name="digits",
        build=scene.build,
        on="agent-*",
        rounds=plan.rounds,
        devices_per_round=plan.agents,
        dataset=DATA,
        minimum=max(1, plan.agents - 3),
        epochs=plan.epochs,
        seed=plan.seed,
        **options,
    )


def kill_in_training(scene: Scene, federation: str, number: int) -> None:
    """Kill the service in the middle of a round, and start it again."""
    while (found := scene.client.federations.get(federation)).state != "succeeded":
        if found.round >= number and found.state == "training":
            scene.service.kill()
            scene.service.start()
            return
        time.sleep(0.05)


def rounds(scene: Scene, kill: bool = False, lies: Sequence[Lie] = ()) -> Mapping[str, Any]:
    """Run the plan: accuracy, bytes up and down, seconds; how many updates did not count."""
    client = scene.client
    with agents(scene, lies):
        began = time.monotonic()
        made = train(scene)
        if kill:
            kill_in_training(scene, made.id, 2)
        done = client.federations.wait(made.id, timeout=WAIT_SECONDS)
        seconds = time.monotonic() - began
    weights = client.federations.weights(done, scene.folder / "trained.safetensors")
    network = untrained(scene.plan.seed)
    network.load_state_dict(load_torch(str(weights)), strict=False)
    found = accuracy(network, *read_data(scene.folder / "held-out.safetensors"))
    moved = {"up_bytes": done.up_bytes, "down_bytes": done.down_bytes, "full_bytes": done.full_bytes}
    return {"accuracy": found, "seconds": seconds, "rejected": done.rejected, **moved}
