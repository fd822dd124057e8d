"""Kill a training with no warning, go on from its checkpoint, and get the same losses as if nothing had happened.

python -m examples.resume_after_a_power_cut
"""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn

import pockengine as pock

STEPS, EVERY, KILL_AFTER = 3000, 20, 500


def main() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 10)).eval()
    recipe = pock.Recipe(loss="cross_entropy", optimizer={"name": "adamw", "lr": 1e-3}, batch=8, update="full")
    artifact = pock.compile(pock.from_torch(net, (torch.zeros(8, 64),)), recipe, target="host")
    binary = str(artifact.unpack() / "bin" / "model")

    with tempfile.TemporaryDirectory() as folder:
        chance = np.random.default_rng(0)
        data, checkpoint, report = (Path(folder, name) for name in ("data.safetensors", "checkpoint", "report.json"))
        images, labels = chance.standard_normal((500, 64), np.float32), chance.integers(0, 10, 500)
        save_file({next(iter(artifact.manifest.inputs)).name: images, "labels": labels}, data)
        train = [binary, "train", "--data", str(data), "--steps", str(STEPS), "--report", str(report)]

        subprocess.run(train, check=True, stdout=subprocess.DEVNULL)
        whole = json.loads(report.read_text())["loss"]

        keep = ["--checkpoint", str(checkpoint), "--checkpoint-every", str(EVERY)]
        with subprocess.Popen([*train, *keep], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if json.loads(line).get("step", 0) >= KILL_AFTER:
                    process.kill()  # SIGKILL: it can neither notice nor save anything
                    break

        subprocess.run([*train, "--resume", str(checkpoint)], check=True, stdout=subprocess.DEVNULL)
        rest = json.loads(report.read_text())["loss"]
    print(f"killed after step {KILL_AFTER}, gone on for {len(rest)} of {STEPS} steps")
    assert 0 < len(rest) < STEPS and rest == whole[-len(rest) :]
    print("every loss since is the same, bit by bit")


if __name__ == "__main__":
    main()
