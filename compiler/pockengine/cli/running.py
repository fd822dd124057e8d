"""`pock run`: the program's events (docs/reference/binary.md) as a progress bar and lines for a person."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ..artifact import model_command, run_artifact
from .console import size
from .text.generating import HELP, Written, with_tokens

_SHOWN_KERNELS = 10

Event = dict[str, Any]


def run_model(artifact: Path, entry: str, arguments: Sequence[str], *, as_json: bool) -> int:
    """Runs an artifact's program; its exit code. Its errors go to stderr as they are."""
    written = Written()
    if entry == "generate" and "--help" not in arguments:
        arguments, written = with_tokens(arguments)
    if as_json or entry == "info" or "--help" in arguments:
        code = run_artifact(artifact, entry, arguments)
        if entry == "generate" and "--help" in arguments:
            print(HELP, end="")
        return code
    command = model_command(artifact, entry, arguments)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, Display(written) as display:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.endswith("\n"):  # a program that was killed may leave half a line
                    display.show(json.loads(line))
        except KeyboardInterrupt:  # the program, in the same group, ends by the same signal
            raise typer.Abort from None
    return process.returncode


class Display:
    """What a person sees of a run: a bar on stderr where that is a terminal, results on stdout."""

    def __init__(self, written: Written) -> None:
        self._written = written
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self._bar.disable = not self._bar.console.is_terminal
        self._task = self._bar.add_task("starting", total=None, loss="")
        stdout = Console(highlight=False, soft_wrap=True)
        # On one terminal lines have to go through the bar, which would otherwise be drawn over them.
        self._console = self._bar.console if stdout.is_terminal and not self._bar.disable else stdout
        self._epochs = ""
        self._saved: list[str] = []

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, event: Event) -> None:
        """Takes one event; kinds it does not know are left out."""
        handler = getattr(self, f"_on_{event.get('event')}", None)
        if handler is not None:
            handler(event)

    def _on_start(self, event: Event) -> None:
        self._epochs = f"/{event['epochs']}" if "epochs" in event else ""
        trains = event["entry"] == "train"
        total = event["steps"] if trains else None
        if "held_out" in event:
            part = event["held_out"]
            self._print(f"{part['samples']} of {part['of']} samples are held out")
        self._bar.update(self._task, description=event["entry"], total=total, completed=event["first_step"])

    def _on_step(self, event: Event) -> None:
        description, loss = f"epoch {event['epoch']}{self._epochs}", f"loss {_number(event['loss'])}"
        self._bar.update(self._task, description=description, completed=event["step"], loss=loss)

    def _on_token(self, event: Event) -> None:
        self._bar.stop()
        sys.stdout.write(self._written.take(event["token"]))
        sys.stdout.flush()

    def _on_eval(self, event: Event) -> None:
        when = f"epoch {event['epoch']}, step {event['step']}: " if "step" in event else f"{event['samples']} samples: "
        self._print(f"{when}{_quality(event)}{' (best)' if event.get('best') else ''}")

    def _on_stopped(self, event: Event) -> None:
        best = (
            f": the best was {_number(event['best_loss'])} at step {event['best_step']}" if "best_step" in event else ""
        )
        self._print(f"stopped early after step {event['step']}{best}")

    def _on_saved(self, event: Event) -> None:
        if event["path"] not in self._saved:  # a checkpoint is written again and again
            self._saved.append(event["path"])

    def _on_done(self, event: Event) -> None:
        self._bar.stop()
        sys.stdout.write(self._written.rest())
        for path in self._saved:
            self._print(f"saved {path}")
        report = event["report"]
        self._print(_conclusion(report))
        if "kernels" in report:
            self._console.print(_kernels(report["kernels"]))

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _quality(event: Event) -> str:
    parts = [f"loss {_number(event['loss'])}"]
    if "accuracy" in event:
        parts.append(f"accuracy {_number(event['accuracy'])}")
    if "perplexity" in event:
        parts.append(f"perplexity {_number(event['perplexity'])}")
    return ", ".join(parts)


def _conclusion(report: Event) -> str:
    """Steps or batches, losses, time and memory of a run."""
    steps, losses, ms = report["steps"], report["loss"], report["step_ms"]
    parts = []
    if report["entry"] == "train" and losses:
        parts.append(f"loss {_number(losses[0])} → {_number(losses[-1])}")
    if "median" in ms:
        parts.append(f"{_number(ms['median'])} ms each ({_number(ms['p10'])} to {_number(ms['p90'])})")
    parts.append(f"peak memory {size(report['peak_rss_bytes'])}")
    units = {"train": "step steps", "bench": "step steps", "generate": "token tokens"}
    one, many = units.get(report["entry"], "batch batches").split()
    return f"{steps} {one if steps == 1 else many}: {', '.join(parts)}"


def _kernels(kernels: Sequence[Event]) -> Table:
    table = Table("kernel", "ms", "Gflop/s", "GB/s", box=None, title="\nSlowest kernels", title_justify="left")
    for kernel in sorted(kernels, key=lambda kernel: -float(kernel["ms"]))[:_SHOWN_KERNELS]:
        rates = [f"{kernel[key] / kernel['ms'] / 1e6:.1f}" if kernel["ms"] else "" for key in ("flops", "bytes")]
        table.add_row(kernel["name"], f"{kernel['ms']:.3f}", *rates)
    return table


def _number(value: float | None) -> str:
    """Four digits; what is not finite has no number in JSON."""
    return "not finite" if value is None else f"{value:.4g}"
