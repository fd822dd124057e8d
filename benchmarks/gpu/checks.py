"""Whether kernels and programs are right on the GPU that is here, each check in a process of its own. The last line is
a JSON object.

    python -m benchmarks.gpu.checks samples|steps TARGET [--names NAME …]
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from pockengine import ops
from pockengine.artifact import model_command
from pockengine.targets import get
from tests.compiler.codegen.cuda.driver import here
from tests.compiler.codegen.cuda.library import check_all
from tests.compiler.codegen.harness import Case, sample_case
from tests.compiler.models.agreement import compared, imported, recipe

HERE = "here"
"""A target of the dry form: this machine, as if it had a GPU."""
DRY_OPS = ("add", "matmul", "softmax")
SANITIZER = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_FOUND = 86


def cases(names: tuple[str, ...] = ()) -> list[Case]:
    """The samples of all operators that have kernels, or of those named; always the same numbers."""
    rng = np.random.default_rng(0)
    made = [op for op in ops.all_ops() if op.kind not in ("composite", "region")]
    return [sample_case(op.name, sample, rng) for op in made if op.name in (names or op.name) for sample in op.samples]


def steps(family: str, kind: str, target_name: str) -> dict[str, Any]:
    """Ten training steps beside PyTorch's on the processor."""
    target = here() if target_name == HERE else get(target_name)
    one = imported(family)
    found = compared(one.family, one.graph, recipe(one.family, kind), target=target)
    return {"loss": found.loss, "problems": list(found.problems)}


def sanitized(artifact: Path) -> dict[str, str]:
    """Tool of NVIDIA's memory checker -> what it says of a step: nothing where all is well."""
    program = shutil.which(SANITIZER) or shutil.which(SANITIZER, path="/usr/local/cuda/bin")
    if program is None:
        return {"all": f"left out: there is no {SANITIZER} here"}
    found = {}
    for tool in TOOLS:
        command = [
            program,
            "--tool",
            tool,
            "--error-exitcode",
            str(_FOUND),
            *model_command(artifact, "bench", ["--steps", "1"]),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        found[tool] = "" if done.returncode == 0 else (done.stdout + done.stderr)[-600:]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("check", choices=("samples", "steps"))
    parser.add_argument("target")
    parser.add_argument("--names", nargs="*", default=())
    options = parser.parse_args()
    if options.check == "samples":
        target = here() if options.target == HERE else get(options.target)
        print(json.dumps({"samples": check_all(cases(tuple(options.names)), target)}))
    else:
        family, kind = options.names
        print(json.dumps(steps(family, kind, options.target)))


if __name__ == "__main__":
    main()
