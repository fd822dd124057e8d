"""What training steps could take on a GPU, by a roofline of each kernel: an estimate, nothing is run.

    python -m benchmarks.gpu.estimates [--target h200] [--compute bf16] [--workload NAME ...] [--write DOCUMENT]
    python -m benchmarks.gpu.estimates --opencl [--workload NAME ...] [--write DOCUMENT]

The second is of GPUs of phones and boards, in f32 and in f16.

Each kernel takes its operations at the highest rate of the units that it uses, its operands and results at the
bandwidth of the GPU's memory, or the waits for memory of its longest chain of steps, whichever is longest, and the time
from the end of one kernel to the start of the next. The multiprocessor with the most blocks is waited for. No kernel
reaches that; how far ours are away is not known, as they were not run on a GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.document import mib, table, write_section
from benchmarks.gpu.roofline import Roofline
from benchmarks.peers.case import Case
from benchmarks.peers.prepare import graph_of, recipe_of
from pockengine.codegen import backends
from pockengine.compile import Request, Scope, plan_programs
from pockengine.targets import Target, get

ROWS = (
    "mobilenetv2-b1-full", "mobilenetv2-b1-last8", "mobilenetv2-b8-full", "mobilenetv2-b64-full",
    "mobilenetv2-b64-last8", "resnet50-b64-full", "resnet50-b64-last8", "distilbert-b32-full", "distilbert-b32-last2",
)  # fmt: skip
OPENCL_TARGETS, OPENCL_FORMATS = ("snapdragon-8-gen-3-gpu", "mali-g610"), ("f32", "f16")
OPENCL_ROWS = ("mobilenetv2-b1-full", "mobilenetv2-b8-full", "mobilenetv2-b8-last8")
HEAD = ("step", "kernels", "GFLOP", "GB moved", "estimate, ms", "samples/s", "planned peak, MiB")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h200")
    parser.add_argument("--compute", default="bf16")
    parser.add_argument("--opencl", action="store_true")
    parser.add_argument("--workload", nargs="+", metavar="NAME")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT")
    options = parser.parse_args(arguments)
    usual = tuple(map(parser.get_default, ("target", "compute")))
    if options.opencl and (options.target, options.compute) != usual:
        parser.error("--opencl has targets and formats of its own: leave --target and --compute out")
    first: tuple[str, ...] = ()
    if options.opencl:
        named = [get(name).computing(format) for name in OPENCL_TARGETS for format in OPENCL_FORMATS]
        first, section, about = ("GPU", "products in"), "opencl-estimates", ""
    else:
        named = [get(options.target).computing(options.compute)]
        section, about = "gpu-estimates", f": `{named[0].name}`, products in {named[0].compute}"
    head, rows = (*first, *HEAD), list[list[str]]()
    for name in options.workload or (OPENCL_ROWS if options.opencl else ROWS):
        for target in named:
            said = [f"`{target.name}`", target.compute] if options.opencl else []
            rows.append([*said, *_row(Case.named(name), target)])
            print(table(head, rows), flush=True)
    if options.write:
        write_section(options.write, section, f"Estimates, not measurements{about}.\n\n{table(head, rows)}")
    return 0


def _row(case: Case, target: Target) -> list[str]:
    backend = backends.of(target)
    request = Request(graph_of(case), recipe_of(case), target, backend=backend, scope=Scope.TRAINING)
    found = Roofline.of(plan_programs(request))
    return [
        case.workload.title,
        str(found.kernels),
        f"{found.flops / 1e9:.1f}",
        f"{found.moved / 1e9:.2f}",
        f"{1e3 * found.seconds:.2f}",
        f"{case.workload.batch / found.seconds:.0f}",
        mib(found.peak),
    ]


if __name__ == "__main__":
    sys.exit(main())
