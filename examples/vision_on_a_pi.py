"""Fine-tune a small vision model for a Raspberry Pi 4: what it takes, the binary, and (emulated) the training.

    python -m examples.vision_on_a_pi

A convolutional network learns scikit-learn's digits in PyTorch; the Pi then sees them inverted. Only the last block,
the head and the biases are trained there. Without `qemu-aarch64-static` (Debian: qemu-user-static) the binary is
built, not run.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch
from safetensors.numpy import save_file
from sklearn.datasets import load_digits
from torch import nn

import pockengine as pock

RECIPE = pock.Recipe(
    loss="cross_entropy",
    optimizer={"name": "sgd", "lr": 0.05, "momentum": 0.9},
    batch=16,
    update=[{"params": "head.*"}, {"params": "blocks.2.*"}, {"params": "*.bias"}],
)
STEPS = 20


class Net(nn.Module):
    """8 x 8 images to 10 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in ((1, 16), (16, 32), (32, 32)))
        self.head = nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            image = torch.relu(block(image))
        scores: torch.Tensor = self.head(image.mean((2, 3)))
        return scores


def pretrained(images: torch.Tensor, labels: torch.Tensor) -> Net:
    """The network after ten epochs on upright digits."""
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(10):
        for at in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[at]), labels[at]).backward()
            optimizer.step()
    return net.eval()


def main() -> None:
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    net = pretrained(images[:900], labels[:900])

    graph = pock.from_torch(net, (images[:16],))
    artifact = pock.compile(graph, RECIPE, target="raspberry-pi-4")
    told = artifact.summary
    print(
        f"arena {told['arena_bytes'] / 1024:.0f} KiB, the whole process {told['predicted_peak_bytes'] / 2**20:.1f} MiB"
    )
    print(f"{told['nodes_backward']} of {told['nodes_backward_dense']} backward nodes are left")

    qemu = shutil.which("qemu-aarch64-static")
    if qemu is None:
        print("qemu-aarch64-static is not installed: the binary was built, not run")
        return
    with tempfile.TemporaryDirectory() as folder:
        data, report = Path(folder, "inverted.safetensors"), Path(folder, "report.json")
        save_file({"image": (1 - images[900:]).numpy(), "labels": labels[900:].numpy()}, data)
        binary = artifact.unpack() / "bin" / "model"
        options = ["train", "--data", str(data), "--steps", str(STEPS), "--report", str(report)]
        subprocess.run([qemu, str(binary), *options], check=True, stdout=subprocess.DEVNULL)
        losses = json.loads(report.read_text())["loss"]
    print(f"loss on the emulated Pi: {losses[0]:.2f} -> {losses[-1]:.2f}")
    assert losses[-1] < losses[0]


if __name__ == "__main__":
    main()
