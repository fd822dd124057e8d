"""Flower's side, in its own environment: `python -m benchmarks.federated.flower FOLDER`.

Flower's server and its strategy FedAvg run the rounds; its clients are in the same process: no time goes by on a
wire. Each trains with PyTorch what the recipe trains, as many steps on the same data, and exchanges its parameters in
Flower's own serialised form, all of them, as Flower's examples do.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file

from benchmarks.federated.scene import (
    BATCH,
    LEARNING_RATE,
    MOMENTUM,
    Network,
    Plan,
    accuracy,
    untrained,
)


def train(network: Network, data: dict[str, np.ndarray], steps: int, seed: int, trained: dict[str, Any]) -> None:
    """Train the parameters that `trained` names, of some only these input channels, for so many steps."""
    generator = torch.Generator().manual_seed(seed)  # of its own: clients train in threads
    images, labels = torch.from_numpy(data["image"]), torch.from_numpy(data["labels"])
    parameters = {name: value for name, value in network.named_parameters() if name in trained}
    optimizer = torch.optim.SGD(list(parameters.values()), LEARNING_RATE, MOMENTUM)
    order = torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        while len(order) < BATCH:
            order = torch.cat([order, torch.randperm(len(labels), generator=generator)])
        chosen, order = order[:BATCH], order[BATCH:]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(images[chosen]), labels[chosen]).backward()
        for name, value in parameters.items():
            channels = trained[name]
            if channels is not None and value.grad is not None:
                kept = torch.zeros_like(value.grad)
                kept[:, channels] = value.grad[:, channels]
                value.grad = kept
        optimizer.step()


def rounds(folder: Path) -> dict[str, Any]:
    """Run the plan of `folder`: accuracy, bytes up and down, seconds."""
    import flwr.common as flower  # type: ignore[import-not-found, unused-ignore]
    from flwr.server import Server, SimpleClientManager  # type: ignore[import-not-found, unused-ignore]
    from flwr.server.client_proxy import ClientProxy  # type: ignore[import-not-found, unused-ignore]
    from flwr.server.strategy import FedAvg  # type: ignore[import-not-found, unused-ignore]

    plan, trained = Plan.load(folder), json.loads((folder / "trained.json").read_text())
    moved = {"up": 0, "down": 0}

    def load(parameters: Any) -> Network:
        network = untrained(plan.seed)
        names = list(network.state_dict())
        arrays = flower.parameters_to_ndarrays(parameters)
        network.load_state_dict({name: torch.from_numpy(array) for name, array in zip(names, arrays, strict=True)})
        return network

    def dump(network: Network) -> Any:
        return flower.ndarrays_to_parameters([value.numpy() for value in network.state_dict().values()])

    class Client(ClientProxy):  # type: ignore[misc, unused-ignore]
        def __init__(self, number: int) -> None:
            super().__init__(str(number))
            self.number, self.data = number, load_file(str(folder / f"agent-{number:02d}.safetensors"))
            self.round = 0

        def fit(self, ins: Any, timeout: Any, group_id: Any) -> Any:
            self.round += 1
            moved["down"] += sum(map(len, ins.parameters.tensors))
            network = load(ins.parameters)
            samples = len(self.data["labels"])
            steps = math.ceil(plan.epochs * samples / BATCH)
            train(network, self.data, steps, hash((plan.seed, self.round, self.number)) % 2**31, trained)
            parameters = dump(network)
            moved["up"] += sum(map(len, parameters.tensors))
            return flower.FitRes(flower.Status(flower.Code.OK, ""), parameters, samples, {})

        def get_properties(self, ins: Any, timeout: Any, group_id: Any) -> Any:
            raise NotImplementedError

        get_parameters = evaluate = reconnect = get_properties

    manager = SimpleClientManager()
    for number in range(plan.agents):
        manager.register(Client(number))
    everyone = {"fraction_fit": 1.0, "fraction_evaluate": 0.0, "min_available_clients": plan.agents}
    strategy = FedAvg(**everyone, initial_parameters=dump(untrained(plan.seed)))
    server = Server(client_manager=manager, strategy=strategy)
    server.set_max_workers(2)
    began = time.monotonic()
    server.fit(plan.rounds, None)
    seconds = time.monotonic() - began
    held_out = load_file(str(folder / "held-out.safetensors"))
    found = accuracy(load(server.parameters), held_out["image"], held_out["labels"])
    return {"accuracy": found, "seconds": seconds, "up_bytes": moved["up"], "down_bytes": moved["down"]}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(rounds(Path(sys.argv[1]))))
