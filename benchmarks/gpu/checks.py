"""Whether kernels and programs are right on the GPU that is here, each check in a process of its own. The last line is
a JSON object.

    python -m benchmarks.gpu.checks samples|halves|steps TARGET [--names NAME …]
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
from pockengine.codegen import backends
from pockengine.codegen.gpu.contraction import kernels as products
from pockengine.ir import DType
from pockengine.plan.program import Lowered
from pockengine.targets import Target, get
from tests.compiler.codegen.cuda.driver import here
from tests.compiler.codegen.cuda.library import Gpu, check_all
from tests.compiler.codegen.gpu import test_attention, test_fp8, test_rings
from tests.compiler.codegen.gpu.attention import test_group_gradients, test_groups
from tests.compiler.codegen.harness import Case, sample_case
from tests.compiler.models.agreement import compared, imported, recipe
from tests.compiler.passes import test_moves

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


def halves(target: Target, some: bool = False) -> list[tuple[Case, Lowered, float]]:
    """Kernels of bf16 and of 8-bit floats: products in each way that the target has for them, attention, and movement,
    each with how near it has to be. `some`: a few of each."""
    lower, found = backends.get("cuda").lower, list[tuple[Case, Lowered, float]]()
    for turns in test_rings.TURNS[:1] if some else test_rings.TURNS:
        for case, choice in test_rings.every_shape(turns, target)[: 2 if some else None]:
            found.append((case, products.lower(case.node, target, choice), 1e-4))
    for case, choice in test_fp8.every_shape(target)[: 2 if some else None]:
        found.append((case, products.lower(case.node, target, choice), 2e-2))
    attention = test_attention.stored_cases(DType.BF16)
    attention += [*test_groups.cases(DType.BF16), *test_group_gradients.cases(DType.BF16)]
    found += [(case, lower(case.node, target, 1), 2e-2) for case in attention[: 2 if some else None]]
    for make in test_moves.MAKES[: 1 if some else None]:
        case = test_moves.case_of(make)
        found.append((case, lower(case.node, target, 1), 2e-5))
    return found


def check_halves(target: Target, some: bool) -> int:
    """Compare them with the interpreter; how many these are."""
    cases, lowered, near = zip(*halves(target, some), strict=True)
    gpu = Gpu(cases, target, lowered)
    for index, most in enumerate(near):
        gpu.check(index, most, most)
    return len(cases)


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
    parser.add_argument("check", choices=("samples", "halves", "steps"))
    parser.add_argument("target")
    parser.add_argument("--names", nargs="*", default=())
    options = parser.parse_args()
    dry = options.target == HERE
    target = here() if dry else get(options.target)
    if options.check == "halves":
        print(json.dumps({"samples": check_halves(target.computing("bf16"), dry)}))
    elif options.check == "samples":
        print(json.dumps({"samples": check_all(cases(tuple(options.names)), target)}))
    else:
        family, kind = options.names
        print(json.dumps(steps(family, kind, options.target)))


if __name__ == "__main__":
    main()
