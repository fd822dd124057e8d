"""Fine-tune, export to ONNX, and let another runtime predict with the result.

python -m examples.export_to_onnx
"""

import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn

import pockengine as pock


def main() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).eval()
    recipe = pock.Recipe(loss="cross_entropy", optimizer="adamw", batch=8, update=[{"params": "3.*"}])
    artifact = pock.compile(pock.from_torch(net, (torch.zeros(8, 1, 8, 8),)), recipe, target="host")
    name = artifact.manifest.inputs[0].name

    chance = np.random.default_rng(0)
    images, labels = chance.standard_normal((8, 1, 8, 8), np.float32), chance.integers(0, 10, 8)
    session = artifact.load()
    losses = [session.step({name: images, "labels": labels}) for _ in range(50)]
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}")
    ours = next(iter(session.predict({name: images}).values()))

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tuned.onnx")
        artifact.export(file, weights=session.state())
        (theirs,) = onnxruntime.InferenceSession(file).run(None, {name: images})
    difference = float(np.abs(ours - theirs).max())
    print(f"onnxruntime predicts the same, to {difference:.1e}")
    assert difference < 1e-4


if __name__ == "__main__":
    main()
