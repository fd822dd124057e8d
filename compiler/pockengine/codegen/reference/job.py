"""One run of the reference runner's command line: its events on stdout, and its report.

docs/reference/binary.md says what they hold."""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from ...errors import DataError, DivergedError
from ...ir import Array
from ...plan.space import Space
from ..files import write_whole
from ..model import Model
from ..samples import Order, Stream, held_out
from .dataset import Dataset
from .machine import Machine
from .options import Options, UsageError, asked_tokens

_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
GENERATOR = "generator"
"""The state that random numbers are made from."""


def emit(event: dict[str, Any]) -> None:
    """One line on stdout; numbers that JSON does not have are null."""
    print(json.dumps(event), flush=True)


@dataclass
class Job:
    """A run: the machine, what is asked for, and what was measured. `started` is when the process began."""

    machine: Machine
    options: Options
    started: float
    losses: list[float] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    cold_start_ms: float = 0.0
    best: tuple[int, float] | None = None
    split: dict[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        return self.machine.model

    def run(self) -> None:
        """The entry point, then the report."""
        told = getattr(self, f"_{self.options.entry}")()
        report = {**self._report(), **told}
        if self.options.report is not None:
            write_whole(self.options.report, [json.dumps(report).encode() + b"\n"])
        emit({"event": "done", "report": report})

    def _train(self) -> dict[str, Any]:
        options, data = self.options, self._dataset(self.options.data)
        watched = None if options.eval_data is None else self._dataset(options.eval_data)
        if options.eval_share:
            data, watched = self._divided(data)
        stream = self._stream(data)
        steps = min(n for n in (options.steps, options.epochs and stream.steps(options.epochs)) if n)
        self._seed(options.seed or 0)
        self._start("train", steps)
        norms = self._estimate_norms(stream, data)
        for step in range(steps):
            self._train_step(stream, data, step)
            last = step + 1 == steps
            if watched is not None and (last or self._is_due(stream, step)):
                self._validate(watched, step + 1, stream.epoch(step) + 1)
        for path, only_trained in ((options.save, False), (options.save_trained, True)):
            if path is not None:
                self.machine.save(path, only_trained)
                emit({"event": "saved", "path": str(path)})
        told: dict[str, Any] = {**norms, "loss": self.losses}
        if watched is not None:
            ended = "steps" if steps == options.steps else "epochs"
            told |= {"evaluations": self.evaluations, "stopped_early": False, "ended": ended}
        if self.best is not None:
            told |= {"best_step": self.best[0], "best_loss": self.best[1]}
        return told

    def _eval(self) -> dict[str, Any]:
        data = self._dataset(self.options.data)
        if self.options.eval_share:
            data = self._divided(data)[1]
        self._start("eval", -(-data.samples // self.model.batch))
        found = self._evaluated(data, measured=True)
        emit({"event": "eval", **found})
        return {**found, "loss": [found["loss"]]}

    def _predict(self) -> dict[str, Any]:
        data = self._dataset(self.options.data, labelled=False)
        self._start("predict", -(-data.samples // self.model.batch))
        pieces: list[dict[str, Array]] = []
        for first, real in self._batches(data):
            found = self._timed("predict", data.batch(range(first, first + real), self.model.batch))
            rows = {name: len(array) // self.model.batch * real for name, array in found.items()}
            pieces.append({name: array[: rows[name]] for name, array in found.items()})
        whole = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        assert self.options.out is not None
        write_whole(self.options.out, [save(whole)])
        return {"samples": data.samples, "loss": []}

    def _generate(self) -> dict[str, Any]:
        """The likeliest token after the prompt, then after that, and so on."""
        told = self.model.generation
        if told is None:
            raise UsageError(
                "this model was compiled without generation: say 'generate: true' in the recipe of a causal language "
                "model"
            )
        prompt, wanted = asked_tokens(self.options, told)
        self._start("generate", wanted)
        read = list(prompt)
        for position in range(len(prompt) + wanted - 1):
            self.machine.write(told.token, np.array([[read[position]]]).astype(told.token.type.dtype.numpy))
            self.machine.write(told.position, np.array([position]).astype(told.position.type.dtype.numpy))
            scores = self._timed("generate", [None] * len(self.model.inputs))["logits"].reshape(-1)
            if position + 1 < len(prompt):
                continue
            scores = scores[: told.token.limit]
            if not (scores < np.inf).all():
                raise DivergedError("the scores of the next token are not numbers: the weights have diverged")
            read.append(int(scores.argmax()))
            emit({"event": "token", "position": position + 1, "token": read[-1]})
            if read[-1] == self.options.stop:
                break
        return {"loss": []}

    def _train_step(self, stream: Stream, data: Dataset, step: int) -> None:
        samples = [stream.order.at(position) for position in stream.positions(step)]
        batch = data.batch(samples, stream.step_samples)
        begun = time.monotonic()
        loss = self.machine.step([array for array in batch if array is not None])
        self._measured(begun)
        if not math.isfinite(loss):
            kind = "not a number" if math.isnan(loss) else "infinite"
            raise DivergedError(f"training diverged: the loss is {kind} at step {step + 1}; lower the learning rate")
        self.losses.append(loss)
        emit({"event": "step", "step": step + 1, "epoch": stream.epoch(step) + 1, "loss": loss, "ms": self.ms[-1]})

    def _estimate_norms(self, stream: Stream, data: Dataset) -> dict[str, Any]:
        """Running statistics of batch norms from the first batches of the order."""
        size, wanted = self.model.batch, self.model.norm_batches if "norms" in self.machine.scripts else 0
        batches = min(wanted, max(1, data.samples // size))
        for done in range(batches):
            samples = [stream.order.at(position) for position in range(done * size, (done + 1) * size)]
            self.machine.estimate_norms(data.batch(samples, size), done)
        return {"norm_batches": batches} if batches else {}

    def _is_due(self, stream: Stream, step: int) -> bool:
        if self.options.eval_every:
            return (step + 1) % self.options.eval_every == 0
        return stream.epoch(step + 1) > stream.epoch(step)

    def _validate(self, data: Dataset, step: int, epoch: int) -> None:
        found = {"step": step, "epoch": epoch, **self._evaluated(data)}
        better = math.isfinite(found["loss"]) and (self.best is None or found["loss"] < self.best[1])
        self.best = (step, found["loss"]) if better else self.best
        self.evaluations.append({**found, "best": better})
        emit({"event": "eval", **self.evaluations[-1]})

    def _evaluated(self, data: Dataset, measured: bool = False) -> dict[str, Any]:
        """Means over all that counts."""
        columns = []
        for first, real in self._batches(data):
            batch = data.batch(range(first, first + real), self.model.batch)
            columns.append(np.empty((4, self.model.batch), np.float32))
            begun = time.monotonic()
            self.machine.evaluate([array for array in batch if array is not None], columns[-1])
            columns[-1] = columns[-1][:, :real]
            if measured:
                self._measured(begun)
        loss, weight, correct, counted = np.concatenate(columns, axis=1).astype(np.float64)
        if not weight.any():
            raise DataError(f"nothing in {data.path} counts: every sample is masked, ignored or of weight 0")
        found: dict[str, Any] = {"samples": data.samples, "loss": _mean(loss, weight)}
        if counted.any():
            found["accuracy"] = _mean(correct, counted)
        if self.model.perplexity:
            found["perplexity"] = math.exp(min(found["loss"], 700.0))
        return found

    def _batches(self, data: Dataset) -> list[tuple[int, int]]:
        """(first sample, how many) of each batch."""
        size = self.model.batch
        return [(first, min(size, data.samples - first)) for first in range(0, data.samples, size)]

    def _timed(self, program: str, batch: Sequence[Array | None]) -> dict[str, Array]:
        begun = time.monotonic()
        found = self.machine.run(program, batch)
        self._measured(begun)
        return found

    def _measured(self, begun: float) -> None:
        now = time.monotonic()
        self.ms.append(1e3 * (now - begun))
        self.cold_start_ms = self.cold_start_ms or 1e3 * (now - self.started)

    def _dataset(self, path: Path | None, labelled: bool = True) -> Dataset:
        assert path is not None
        return Dataset(self.model, path, labelled)

    def _divided(self, data: Dataset) -> tuple[Dataset, Dataset]:
        """What is trained on, and what is held out."""
        share, seed, classes = self.options.eval_share or 0.0, self.options.eval_seed or 0, data.classes()
        chosen = held_out(data.samples, share, seed, classes)
        told = {"share": share, "seed": seed, "samples": int(chosen.sum()), "of": data.samples}
        self.split = {"held_out": {**told, "by_class": classes is not None}}
        return data.part(~chosen), data.part(chosen)

    def _stream(self, data: Dataset) -> Stream:
        options, model = self.options, self.model
        drawn = any(state.name == GENERATOR for state in model.states)
        if options.seed is not None and options.no_shuffle and not drawn:
            raise UsageError("--seed and --no-shuffle exclude each other: this model draws no random numbers")
        micro = model.accumulate_steps if "accumulate" in self.machine.scripts else 1
        order = Order(data.samples, None if options.no_shuffle else options.seed or 0)
        stream = Stream(order, model.batch * micro, model.last_batch)
        if not stream.possible:
            raise DataError(
                f"{data.path} has {data.samples} samples, fewer than the {stream.step_samples} of one step; compile "
                "with a smaller batch or last_batch: wrap"
            )
        return stream

    def _seed(self, seed: int) -> None:
        """The same seed gives the same random numbers; the low half counts the runs."""
        for state in self.model.states:
            if state.name == GENERATOR:
                self.machine.write(state, np.array((seed % 2**32) << 32, np.uint64).view(np.int64))

    def _start(self, program: str, steps: int) -> None:
        if program not in self.machine.scripts:
            raise UsageError(f"this model was compiled without the program '{program}'")
        sizes = self.model.space_bytes
        event = {"event": "start", "entry": program, "target": self.model.target, "threads": self.machine.threads}
        event |= {"arena_bytes": self.machine.scripts[program].arena_bytes}
        event |= {f"{space}_bytes": sizes[space] for space in (Space.PARAM, Space.STATE)}
        event |= {"steps": steps} | ({"epochs": self.options.epochs} if self.options.epochs else {})
        emit({**event, "first_step": 0, **self.split})

    def _report(self) -> dict[str, Any]:
        later = self.ms[1:] or self.ms
        quantiles = dict(zip(("median", "p10", "p90"), np.quantile(later, (0.5, 0.1, 0.9)).tolist(), strict=True))
        return {
            "entry": self.options.entry,
            "target": self.model.target,
            "threads": self.machine.threads,
            "steps": len(self.ms),
            **self.split,
            "step_ms": {**quantiles, "samples": self.ms},
            "cold_start_ms": self.cold_start_ms,
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT,
            **{f"{space}_bytes": size for space, size in self.model.space_bytes.items()},
            "predicted_peak_bytes": self.model.predicted_peak_bytes,
        }


def _mean(values: Array, weights: Array) -> float:
    """Of what counts: a sample of weight 0 may have any value."""
    counts = weights != 0
    return float(np.average(values[counts], weights=weights[counts]))
