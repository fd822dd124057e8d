"""The options of `pock search`, which are many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import compiling
from ..options import Batch, Dims, ImportLosses, Json, Model, TargetName

SearchData = Annotated[
    Path, typer.Option("--data", metavar="D.safetensors", help="Samples of what will be trained on, targets included.")
]
EvalData = Annotated[
    Path | None,
    typer.Option("--eval-data", metavar="E.safetensors", help="Samples held out, for `measured` and --confirm."),
]
BaseRecipe = Annotated[
    Path | None,
    typer.Option("--recipe", metavar="BASE.yaml", help="Loss, optimizer and batch; its `update` is not read."),
]
SearchMemory = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="What the predicted peak may be, such as 64MiB.")
]
Joules = Annotated[
    float | None, typer.Option("--energy", metavar="JOULES", help="What one step may take; needs --power.")
]
Power = Annotated[
    str | None,
    typer.Option(
        "--power",
        metavar="WATTS|REPORT.json",
        help="What the device draws while it trains: watts, or the report of a run on such a device.",
    ),
]
Method = Annotated[
    str,
    typer.Option("--method", metavar="{fisher|measured|gradient}", help="How it is found what each parameter brings."),
]
Channels = Annotated[
    str,
    typer.Option(
        "--channels",
        metavar="{activation|fisher|gradient|magnitude}",
        help="By what the channels are chosen that are trained of a weight.",
    ),
]
Prefer = Annotated[
    str,
    typer.Option(
        "--prefer", metavar="{accuracy|memory|time|balanced}", help="Which scheme of those within the limits."
    ),
]
Ranks = Annotated[
    list[int] | None,
    typer.Option("--rank", metavar="R", help="Weights may have low-rank adapters instead, of this rank; repeatable."),
]
Resume = Annotated[
    Path | None,
    typer.Option("--resume", metavar="FOLDER", help="Keep what is found here, and go on with what is there."),
]
FindRates = Annotated[
    bool, typer.Option("--lr", help="Find learning rates, too: for all that is trained, then for each group.")
]
Try = Annotated[
    bool, typer.Option("--try", help="Train what else fits, too, each at its best learning rates, and take the best.")
]
Recompute = Annotated[
    bool | None,
    typer.Option(
        "--recompute/--no-recompute",
        help="Whether what fits because forward nodes are computed twice counts, too.",
        show_default="where --memory is given",
    ),
]
MicroBatches = Annotated[
    bool | None,
    typer.Option(
        "--micro-batches/--no-micro-batches",
        help="Whether what fits because a step takes its samples in micro-batches counts, too.",
        show_default="where --memory is given and that trains the same",
    ),
]
RateSteps = Annotated[
    int, typer.Option("--lr-steps", metavar="STEPS", min=1, help="Of each short training that --lr does.")
]
Minutes = Annotated[float, typer.Option("--minutes", min=0.0, help="What finding contributions may take; --lr, again.")]
Report = Annotated[Path | None, typer.Option("--report", metavar="R.html", help="Write a page that says why.")]
Confirm = Annotated[
    int, typer.Option("--confirm", metavar="STEPS", min=0, help="Train the recipe and usual ones so long, and compare.")
]


def search_command(
    model: Model,
    data: SearchData,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="RECIPE.yaml", help="The recipe to write.")],
    eval_data: EvalData = None,
    recipe: BaseRecipe = None,
    target: TargetName = "host",
    memory: SearchMemory = None,
    step_ms: Annotated[float | None, typer.Option("--step-ms", min=0.0, help="What one step may take.")] = None,
    energy: Joules = None,
    power: Power = None,
    minutes: Minutes = 30.0,
    method: Method = "fisher",
    channels: Channels = "activation",
    prefer: Prefer = "accuracy",
    rank: Ranks = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all that is drawn.")] = 0,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Default: the target's cores.")] = None,
    batch: Batch = None,
    dim: Dims = None,
    resume: Resume = None,
    lr: FindRates = False,
    lr_steps: RateSteps = 60,
    tries: Try = False,
    recompute: Recompute = None,
    micro_batches: MicroBatches = None,
    confirm: Confirm = 0,
    report: Report = None,
    json: Json = False,
    import_losses: ImportLosses = False,
) -> None:
    """Find which parameters to train within limits of memory and time, and write the recipe that does it."""
    from . import job

    limits, ways = (memory, step_ms, energy, power, minutes), (method, channels, prefer, tuple(rank or ()))
    options = job.SearchOptions(
        model,
        data,
        output,
        eval_data,
        recipe,
        target,
        *limits,
        *ways,
        seed,
        threads,
        batch,
        compiling.parse_dims(dim or []),
        resume,
        lr_steps if lr or tries else 0,
        tries,
        recompute,
        micro_batches,
        confirm,
        report,
        import_losses,
    )
    job.search_scheme(options, as_json=json)
