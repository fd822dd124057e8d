"""What step_time shows of its figures: a table in the terminal, sections of the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.document import mib, table, write_section
from benchmarks.peers.catalogue import OURS, PEERS, competing
from benchmarks.peers.environments import pinned_versions
from benchmarks.workloads import WORKLOADS, Workload

Figures = dict[str, Any]
RIVALS = competing("f32")[:-1]


def show(workloads: Mapping[str, Figures]) -> None:
    """Print times, ratios and memory."""
    shown = Table("workload", "contender", "median ms", "p10", "p90", "ours / it", "peak MiB", "over idle MiB")
    for measured in workloads.values():
        own = _median(measured, OURS)
        for name, figures in measured["contenders"].items():
            if "ms" not in figures:
                shown.add_row(measured["title"], name, f"[red]{figures['error']}")
                continue
            ms = figures["ms"]
            ratio = f"{own / ms['median']:.2f}" if own and name != OURS else ""
            times = (f"{ms[key]:.1f}" for key in ("median", "p10", "p90"))
            shown.add_row(
                measured["title"], name, *times, ratio, mib(figures["peak_bytes"]), mib(_growth(name, figures))
            )
    Console(width=170).print(shown)


def write(document: Path, figures: Figures) -> None:
    """Rewrite the sections that these figures are about, in the order of WORKLOADS."""
    workloads = {name: figures["workloads"][name] for name in WORKLOADS if name in figures["workloads"]}
    machine = figures["machine"]
    write_section(document, "machine", _machine(machine, workloads))
    write_section(document, "step-time", _times(workloads))
    write_section(document, "step-operations", _operations(workloads, machine.get("own_peak_flops_per_second")))
    write_section(document, "step-memory", _memory(workloads))
    write_section(document, "sparse", _sparse(workloads))


def _machine(machine: Figures, workloads: Mapping[str, Figures]) -> str:
    peak = _matmul_peak(workloads)
    text = (
        f"Measured on {machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, "
        f"{machine['threads']} threads for everyone. "
        f"Peers: {', '.join(f'{name} {version}' for name, version in pinned_versions().items())}."
    )
    if peak:
        text += f" `torch.mm` of 2048 x 2048 float32 reaches {peak / 1e9:.0f} GFLOP/s"
        own = machine.get("own_peak_flops_per_second")
        text += f", our own matrix product {own / 1e9:.0f} GFLOP/s." if own else "."
    return text


def _times(workloads: Mapping[str, Figures]) -> str:
    """A table for each format of products: where it is not f32, peers compete in it and in f32."""
    tables = []
    for compute in ("f32", "bf16"):
        chosen = {name: measured for name, measured in workloads.items() if WORKLOADS[name].compute == compute}
        if chosen:
            tables.append(_times_of(chosen, competing(compute)[:-1]))
    return "\n\n".join(tables)


def _times_of(workloads: Mapping[str, Figures], rivals: Sequence[str]) -> str:
    rows, reasons = [], {}
    for name, measured in workloads.items():
        cells = [_milliseconds(measured, rival) for rival in rivals]
        for rival in rivals:
            if error := measured["contenders"].get(rival, {}).get("error"):
                reasons[f"{WORKLOADS[name].title}, {PEERS[rival].title}"] = error
        ratio, ask = _ratio(measured), WORKLOADS[name].ask
        frozen = WORKLOADS[name].frozen
        note = f" (our frozen weights in {frozen['weights']})" if frozen else ""
        rows.append(
            [measured["title"], *cells, f"**{_milliseconds(measured, OURS)}**", f"{ratio:.2f}" if ratio else "–",
             f"{ask:.2f}{note}"]
        )  # fmt: skip
    head = ["median ms", *(PEERS[rival].title for rival in rivals), "PockEngine", "ours / best", "ask"]
    notes = "".join(f"\n- {what}: {why}" for what, why in reasons.items())
    return table(head, rows) + (f"\n\nNot measured:\n{notes}" if notes else "")


def _operations(workloads: Mapping[str, Figures], own_peak: float | None) -> str:
    """Of workloads in f32, which the peaks are of."""
    rows = []
    for name, measured in workloads.items():
        own = measured["contenders"].get(OURS, {})
        if "ms" not in own or WORKLOADS[name].compute != "f32":
            continue
        rate = 1e3 * own["flops"] / own["ms"]["median"]
        shares = (f"{rate / peak:.0%}" if peak else "–" for peak in (_matmul_peak(workloads), own_peak))
        rows.append([measured["title"], f"{own['flops'] / 1e9:.2f}", f"{rate / 1e9:.0f}", *shares])
    return table(["", "GFLOP a step", "GFLOP/s", "of `torch.mm`", "of our matrix product"], rows)


def _memory(workloads: Mapping[str, Figures]) -> str:
    whole: list[list[str]] = []
    growth: list[list[str]] = []
    for measured in workloads.values():
        contenders = {name: figures for name, figures in measured["contenders"].items() if "ms" in figures}
        for rows, size in ((whole, lambda name, figures: figures["peak_bytes"]), (growth, _growth)):
            sizes = {name: size(name, figures) for name, figures in contenders.items()}
            cells = [mib(sizes[name]) if name in sizes else "–" for name in (*RIVALS, OURS)]
            both = "pytorch" in sizes and OURS in sizes
            rows.append([measured["title"], *cells, f"1/{sizes['pytorch'] / sizes[OURS]:.1f}" if both else "–"])
    head = [*(PEERS[name].title for name in (*RIVALS, OURS)), "ours / PyTorch"]
    return f"{table(['whole process, MiB', *head], whole)}\n\n{table(['over idle, MiB', *head], growth)}"


def sparse_figures(workloads: Mapping[str, Figures]) -> Figures:
    """Sparse workload -> how many times less it takes than the full one of the same model and batch, both ours; and
    what the engine alone is worth: the best peer's time of the full step over ours."""
    found: Figures = {}
    for name, measured in workloads.items():
        workload = WORKLOADS[name]
        full = _full_of(workload)
        if workload.scheme == "full" or full not in workloads:
            continue
        dense, sparse = (workloads[one]["contenders"].get(OURS, {}) for one in (full, name))
        best = _best(workloads[full])
        if "ms" not in dense or "ms" not in sparse:
            continue
        found[name] = {
            "title": measured["title"],
            "engine_time": best / dense["ms"]["median"] if best else None,
            "time": dense["ms"]["median"] / sparse["ms"]["median"],
            "operations": dense["flops"] / sparse["flops"],
            "process_memory": dense["peak_bytes"] / sparse["peak_bytes"],
            "arena": dense["arena_bytes"] / sparse["arena_bytes"],
        }
    return found


def _sparse(workloads: Mapping[str, Figures]) -> str:
    keys = ("engine_time", "time", "operations", "process_memory", "arena")
    rows = [
        [row["title"], *("–" if row[key] is None else f"{row[key]:.2f}x" for key in keys)]
        for row in sparse_figures(workloads).values()
    ]
    head = [
        "",
        "engine: best peer's full / our full",
        "sparsity: our full / our sparse",
        "the same in operations",
        "in peak memory of the process",
        "in memory of tensors",
    ]
    return table(head, rows)


def _full_of(workload: Workload) -> str:
    """The name of the workload that trains all of the same model; empty where there is none."""
    wanted = (workload.family, workload.batch, "full", workload.compute, workload.state)
    known = {(one.family, one.batch, one.scheme, one.compute, one.state): name for name, one in WORKLOADS.items()}
    return known.get(wanted, "")


def _matmul_peak(workloads: Mapping[str, Figures]) -> float:
    """The best rate of `torch.mm` in any of the runs: a peak that a busy moment lowered would flatter us."""
    return max((measured["matmul_flops_per_second"] for measured in workloads.values()), default=0.0)


def _median(measured: Figures, name: str) -> float | None:
    figures = measured["contenders"].get(name, {})
    return float(figures["ms"]["median"]) if "ms" in figures else None


def _best(measured: Figures) -> float | None:
    return min((ms for name in PEERS if name != OURS and (ms := _median(measured, name)) is not None), default=None)


def _ratio(measured: Figures) -> float | None:
    own, best = _median(measured, OURS), _best(measured)
    return own / best if own and best else None


def _milliseconds(measured: Figures, name: str) -> str:
    median = _median(measured, name)
    return "–" if median is None else f"{median:.1f}" if median < 1000 else f"{median:.0f}"


def _growth(name: str, figures: Figures) -> float:
    """Over the process with the framework imported and nothing built; of ours, which imports nothing, all of it."""
    return float(figures["peak_bytes"] - (0 if name == OURS else figures["idle_bytes"]))
