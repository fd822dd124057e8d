"""A fleet of one: a service, an agent that enrols, a build, a run on the device, and what it reports.

    python -m examples.fleet

Everything runs on this machine, in folders that are removed at the end. `demo/client.py` is a small client of the REST
interface (docs/reference/api.md), `demo/service.py` and `demo/fleet.py` start the processes.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn

from demo import fleet, service
from demo.client import Client

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
                named = client.post("/models", {"name": "net", "digest": client.upload(model)})
                order = {"model_id": named["id"], "recipe": RECIPE, "target": "host", "threads": 2}
                build = client.wait(f"/builds/{client.post('/builds', order)['id']}", lambda seen: None, 300)
                print(f"built: arena {build['summary']['arena_bytes']} bytes")

                rows = client.post("/datasets", {"name": "rows", "digest": client.upload(data)})
                order = {"build_id": build["id"], "device_id": device_id, "dataset_id": rows["id"]}
                asked = client.post("/runs", {**order, "entry": "train", "steps": STEPS})
                report = client.wait(f"/runs/{asked['id']}", lambda seen: None, 120)["report"]["train"]
    print(f"ran on {device.name}: loss {report['loss'][0]:.2f} -> {report['loss'][-1]:.2f}")
    assert report["loss"][-1] < report["loss"][0]


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
