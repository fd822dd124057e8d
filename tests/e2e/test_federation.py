"""A federation with real agents, over digits that are split unevenly: one agent lies, and the service is killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from benchmarks.federated.data import write_data
from benchmarks.federated.liar import Lie
from benchmarks.federated.ours import Scene, agents, kill_in_training, rounds, serving, train
from benchmarks.federated.scene import Plan, untrained

PLAN = Plan(agents=4, rounds=2, epochs=3.0, seed=0)


def command(scene: Scene, *words: str) -> str:
    """What `pock-client` prints."""
    address = {"POCK_URL": scene.service.url, "POCK_KEY": scene.service.key}
    line = [sys.executable, "-m", "pock_client.cli", *words]
    return subprocess.run(line, env={**os.environ, **address}, capture_output=True, text=True, check=True).stdout


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_two_rounds_of_four_agents(tmp_path: Path) -> None:
    write_data(tmp_path, PLAN)
    with serving(tmp_path, PLAN) as scene:
        found = rounds(scene)
        assert found["accuracy"] > 0.4 and found["rejected"] == 0
        assert found["up_bytes"] + found["down_bytes"] < 0.5 * found["full_bytes"]
        with agents(scene, (Lie.SHAPES,)):
            made = train(scene)
            kill_in_training(scene, made.id, 2)
            done = scene.client.federations.wait(made.id, timeout=300)
        assert done.rejected == 2
        said = command(scene, "federate", "show", "digits")
        assert "2 of 2 rounds have ended" in said and "2 contributions" in said
        whole = tmp_path / "whole.safetensors"
        assert "after round 2 of 2" in command(scene, "federate", "download", "digits", "-o", str(whole))
        assert set(load_file(whole)) == set(untrained(0).state_dict())
        assert json.loads(command(scene, "federate", "list", "--json"))["items"][0]["state"] == "succeeded"
        states = [[member.state for member in one.members] for one in scene.client.federations.rounds(done.id)]
        assert [sorted(one) for one in states] == [["accepted"] * 3 + ["rejected"]] * 2
