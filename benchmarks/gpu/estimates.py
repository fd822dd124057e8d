"""What training steps could take on a GPU, by a roofline of each kernel: an estimate, nothing is run.

    python -m benchmarks.gpu.estimates [--target h200] [--compute bf16] [--workload NAME ...] [--write DOCUMENT]
    python -m benchmarks.gpu.estimates --opencl [--workload NAME ...] [--write DOCUMENT]
    python -m benchmarks.gpu.estimates --kernels [--target h200] [--compute bf16] [--write DOCUMENT]

The second is of GPUs of phones and boards, in f32 and in f16; the third of the single kernels that `benchmarks.gpu`
measures beside NVIDIA's libraries.

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
from benchmarks.gpu.kernels import attention, products
from benchmarks.gpu.measure import OfFamily
from benchmarks.gpu.roofline import Roofline
from benchmarks.gpu.rows import ROWS as MEASURED
from benchmarks.peers.case import Case
from benchmarks.peers.prepare import graph_of, recipe_of
from pockengine.codegen import backends
from pockengine.codegen.gpu.pace import gpu_of
from pockengine.compile import Request, Scope, plan_programs
from pockengine.targets import Target, get

ROWS = (
    "mobilenetv2-b1-full", "mobilenetv2-b1-last8", "mobilenetv2-b8-full", "mobilenetv2-b64-full",
    "mobilenetv2-b64-last8", "resnet50-b64-full", "resnet50-b64-last8", "bert-b32-full", "bert-b32-last4",
    "distilbert-b32-full", "distilbert-b32-last2",
)  # fmt: skip
OPENCL_TARGETS, OPENCL_FORMATS = ("snapdragon-8-gen-3-gpu", "mali-g610"), ("f32", "f16")
OPENCL_ROWS = ("mobilenetv2-b1-full", "mobilenetv2-b8-full", "mobilenetv2-b8-last8")
MEASURED_ALONE = ("bert-b32-full", "bert-b32-last4")
"""Rows that have peers on a GPU, and no workload elsewhere."""
KERNEL_HEAD = ("kernel", "GFLOP", "estimate, ms", "of the peak of its units")
HEAD = ("step", "kernels", "GFLOP", "GB moved", "estimate, ms", "samples/s", "planned peak, MiB")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h200")
    parser.add_argument("--compute", default="bf16")
    parser.add_argument("--opencl", action="store_true")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--workload", nargs="+", metavar="NAME")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT")
    options = parser.parse_args(arguments)
    usual = tuple(map(parser.get_default, ("target", "compute")))
    if options.opencl and (options.target, options.compute) != usual:
        parser.error("--opencl has targets and formats of its own: leave --target and --compute out")
    if options.kernels:
        return _kernels(get(options.target).computing(options.compute), options.write)
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
            rows.append([*said, *_row(name, target)])
            print(table(head, rows), flush=True)
    if options.write:
        write_section(options.write, section, f"Estimates, not measurements{about}.\n\n{table(head, rows)}")
    return 0


def _row(name: str, target: Target) -> list[str]:
    """Of a workload of `benchmarks.workloads`, or of a row that is measured on a GPU alone."""
    measured = {row.name: row for row in MEASURED}
    if name not in MEASURED_ALONE:
        case = Case.named(name)
        graph, recipe, title, batch = graph_of(case), recipe_of(case), case.workload.title, case.workload.batch
    else:
        row = measured[name]
        graph, recipe, title, batch = OfFamily(row).graph(), OfFamily(row).recipe(), row.title, row.batch
    request = Request(graph, recipe, target, backend=backends.of(target), scope=Scope.TRAINING)
    found = Roofline.of(plan_programs(request))
    return [
        title,
        str(found.kernels),
        f"{found.flops / 1e9:.1f}",
        f"{found.moved / 1e9:.2f}",
        f"{1e3 * found.seconds:.2f}",
        f"{batch / found.seconds:.0f}",
        mib(found.peak),
    ]


def _kernels(target: Target, document: Path | None) -> int:
    backend, gpu = backends.of(target), gpu_of(target)
    rate, rows = gpu.matrix_flops_per_cycle(target.compute), list[list[str]]()
    for pair in (*products(dry=False), *attention(dry=False)):
        lowered = backend.lower(pair.node, target, 1)
        cycles, flops = backend.cost(lowered, target, 1), sum(call.flops for call in lowered.calls)
        ms = 1e3 * cycles / (gpu.clock_mhz * 1e6)
        rows.append([pair.name, f"{flops / 1e9:.1f}", f"{ms:.3f}", f"{100 * flops / cycles / rate:.0f} %"])
    text = f"Estimates, not measurements: `{target.name}`, products in {target.compute}.\n\n{table(KERNEL_HEAD, rows)}"
    print(text)
    if document:
        write_section(document, "gpu-kernel-estimates", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
