"""A fleet of one: a service, an agent that enrols, a build, a run on the device, and what it reports.

    python -m examples.fleet

Everything runs on this machine, in folders that are removed at the end. `pock_client` speaks to the service
(docs/reference/client.md), `demo/service.py` and `demo/fleet.py` start the processes.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn

from demo import fleet, service
from pock_client import Client

RECIPE = "{loss: cross_entropy, optimizer: {name: adamw, lr: 0.01}, batch: 8, update: full}"
STEPS = 200


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        device = fleet.Device("this-machine", "host", folder / "device")
        model, data = make_files(folder)
        with service.serving(folder) as address, Client(address.url, address.key) as client:
            device_id = fleet.enroll(device, address.url, client)
            with fleet.agents_running((device,)):
                asked = client.builds.create(model=client.models.push(model), recipe=RECIPE, target="host", threads=2)
                build = client.builds.wait(asked.id, timeout=300)
                assert build.summary is not None
                print(f"built: arena {build.summary.arena_bytes} bytes")

                rows = client.datasets.push(data)
                run = client.runs.create(build=build, device=device_id, dataset=rows, steps=STEPS)
                report = client.runs.wait(run.id, timeout=120).report
    assert report is not None and report.train is not None and report.train.loss is not None
    loss = report.train.loss
    print(f"ran on {device.name}: loss {loss[0]:.2f} -> {loss[-1]:.2f}")
    assert loss[-1] < loss[0]


def make_files(folder: Path) -> tuple[Path, Path]:
    """A model as ONNX, and a dataset that it can learn."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    model, data = folder / "net.onnx", folder / "data.safetensors"
    torch.onnx.export(net, (torch.zeros(8, 16),), model, input_names=["x"], external_data=False, optimize=False)
    rows = np.random.default_rng(0).standard_normal((200, 16), np.float32)
    save_file({"x": rows, "labels": rows[:, :4].argmax(1)}, data)
    return model, data


if __name__ == "__main__":
    main()
