"""`pock search`: which parameters to train, found from data, a device and limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.table import Table

from ...check import usual_recipe
from ...codegen.files import write_whole
from ...errors import PockError, nearest
from ...frontends import load
from ...ir import Graph
from ...recipe import Recipe
from ...search.choosing import Limits, Preference
from ...search.job import Compared, Energy, Found, SearchRequest, read_dataset, read_watts, run
from ...search.report import report_page
from ...targets import get as get_target
from .. import console
from ..compiling import check_output, parse_memory
from ..progress import progress


@dataclass(frozen=True)
class SearchOptions:
    """The options of `pock search`."""

    model: Path
    data: Path
    output: Path
    eval_data: Path | None
    recipe: Path | None
    target: str
    memory: str | None
    step_ms: float | None
    joules: float | None
    power: str | None
    minutes: float
    method: str
    channels: str
    prefer: str
    ranks: tuple[int, ...]
    seed: int
    threads: int | None
    batch: int | None
    dims: Mapping[str, int]
    resume: Path | None
    lr_steps: int
    tries: bool
    recompute: bool | None
    micro_batches: bool | None
    confirm: int
    report: Path | None
    import_losses: bool = False


def search_scheme(options: SearchOptions, *, as_json: bool) -> None:
    """Search, and write the recipe and the report; what cannot work is refused before any work is done."""
    target = get_target(options.target)
    limits = Limits(parse_memory(options.memory), options.step_ms)
    energy = Energy.of(options.joules, None if options.power is None else read_watts(options.power), target.name)
    if options.prefer not in list(Preference):
        raise PockError(f"there is no --prefer '{options.prefer}'{nearest(options.prefer, Preference)}")
    check_output(options.output, "recipe", "recipe.yaml")
    if options.report is not None:
        check_output(options.report, "report", "report.html")
    base = Recipe.load(options.recipe, options.import_losses) if options.recipe else None
    data = read_dataset(options.data)
    held_out = read_dataset(options.eval_data) if options.eval_data else None
    batch = options.batch if options.batch is not None else base.batch if base else None
    with progress() as report:
        report("import", 0, 1)
        graph = load(options.model, options.dims, batch)
        request = SearchRequest(
            graph=graph,
            base=(base or usual_recipe(graph)).with_batch(batch),
            data=data,
            target=target,
            limits=limits,
            energy=energy,
            eval_data=held_out,
            method=options.method,
            channels=options.channels,
            prefer=Preference(options.prefer),
            ranks=options.ranks,
            minutes=options.minutes,
            seed=options.seed,
            threads=options.threads,
            folder=options.resume,
            lr_steps=options.lr_steps,
            tries=options.tries,
            recompute=options.recompute,
            at_batch=partial(_at_batch, options),
            micro_batches=options.micro_batches,
            confirm=options.confirm,
            progress=report,
        )
        found = run(request)
    write_whole(options.output, [found.recipe.encode()])
    if options.report is not None:
        write_whole(options.report, [report_page(found).encode()])
    if as_json:
        print(json.dumps({**found.to_mapping(), "output": str(options.output)}))
    else:
        _show(found, options)


def _at_batch(options: SearchOptions, batch: int) -> Graph:
    return load(options.model, options.dims, batch, need_weights=False)


def _show(found: Found, options: SearchOptions) -> None:
    table = Table("scheme", "numbers trained", "peak memory", "step", "gain", "loss tried", "accuracy", box=None)
    for one in found.compared:
        table.add_row(*_row(one, found))
    output = console.wide()
    output.print(table)
    rows = {
        "\nlimits": "\n" + (limits_text(found) or "none"),
        "contributions": f"{found.method}, channels by {found.provenance['channels']}, seed {found.seed}",
        **({"energy": found.energy.words(found.chosen.cost.step_ms)} if found.energy else {}),
        **_rates_rows(found),
        "bound": f"no scheme that fits brings over {found.chosen.gap:.2%} more, if contributions and costs add",
        "took": ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in found.seconds.items()),
        "recipe": str(options.output),
    }
    if options.report is not None:
        rows["report"] = str(options.report)
    output.print(console.pairs(rows))
    for note in (*found.chosen.notes, *(found.rates.notes if found.rates else ())):
        output.print(f"note: {note}", markup=False)


def _rates_rows(found: Found) -> dict[str, str]:
    if found.rates is None:
        return {}
    rates = ", ".join(f"{name} {rate:g}" for name, rate in found.rates.lr.items())
    judged = (
        f"loss of {found.rates.kept_back} samples kept back {found.rates.loss:.4g}, {found.rates.before:.4g} before"
    )
    return {"learning rates": f"{rates} ({judged})"}


def limits_text(found: Found) -> str:
    """`16.0 MB, 200 ms`."""
    memory, ms = found.limits.memory_bytes, found.limits.step_ms
    return ", ".join(
        [*([console.size(memory)] if memory is not None else []), *([f"{ms:g} ms"] if ms is not None else [])]
    )


def _row(one: Compared, found: Found) -> tuple[str, ...]:
    within = "" if found.limits.keeps(one.cost) else " (over)"
    gain = f"{one.gain / best:.1%}" if (best := max(other.gain for other in found.compared)) > 0 else f"{one.gain:.4g}"
    accuracy = "" if one.accuracy is None else f"{one.accuracy:.1%}"
    memory = console.size(one.cost.peak_bytes) + within
    loss = "" if one.loss is None else f"{one.loss:.4g}"
    return one.name, console.count(one.numbers), memory, f"{one.cost.step_ms:.3g} ms", gain, loss, accuracy
