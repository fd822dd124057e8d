"""The command line of the reference runner: the executable's options that it has, and a sentence for the rest.

docs/reference/binary.md lists the executable's options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import DataError, nearest
from ..model import Generation

USAGE = """\
usage: model train   --data D.safetensors --steps N and/or --epochs E [--seed S] [--no-shuffle]
                     [--eval-data D.safetensors or --eval-share 0.2 [--eval-seed S]] [--eval-every N]
                     [--save W] [--save-trained W] [--load W]
                     [--report R.json]
       model eval    --data D.safetensors [--eval-share 0.2 [--eval-seed S]] [--load W] [--report R.json]
       model predict --data D.safetensors --out O.safetensors [--load W] [--report R.json]
       model generate --prompt-tokens 1,2,3 [--tokens N] [--stop ID] [--load W] [--report R.json]
       model info
"""
ENTRIES = ("train", "eval", "predict", "generate", "info")
_DATA = ("train", "eval", "predict")
_RUNS = (*_DATA, "generate")
_FILES = {
    "--data": _DATA, "--load": _RUNS, "--report": _RUNS, "--out": ("predict",),
    "--eval-data": ("train",), "--save": ("train",), "--save-trained": ("train",),
}  # fmt: skip
_NUMBERS = {"--tokens": 1, "--stop": 0, "--steps": 1, "--epochs": 1, "--eval-every": 1, "--seed": 0, "--eval-seed": 0}
_SHARE, _PROMPT = "--eval-share", "--prompt-tokens"
_LACKING = (
    "--checkpoint", "--checkpoint-every", "--resume", "--patience", "--profile", "--params", "--consts",
    "--temperature", "--top-k",
)  # fmt: skip


class UsageError(DataError):
    """A command line that cannot be followed."""


@dataclass(frozen=True)
class Options:
    """What is asked for; None where nothing is said."""

    entry: str
    data: Path | None = None
    load: Path | None = None
    report: Path | None = None
    out: Path | None = None
    eval_data: Path | None = None
    save: Path | None = None
    save_trained: Path | None = None
    steps: int | None = None
    epochs: int | None = None
    eval_every: int | None = None
    eval_share: float | None = None
    eval_seed: int | None = None
    seed: int | None = None
    no_shuffle: bool = False
    prompt_tokens: str | None = None
    tokens: int | None = None
    stop: int | None = None


def parse(arguments: Sequence[str]) -> Options | None:
    """The options; None where help is asked for. Raises UsageError."""
    if not arguments:
        raise UsageError("say what to do: train, eval, predict, generate or info (see --help)")
    entry, rest = arguments[0], list(arguments[1:])
    if entry in ("--help", "-h") or "--help" in rest:
        return None
    if entry == "bench":
        raise UsageError("the reference backend is not measured: compile with --backend c to measure a step")
    if entry not in ENTRIES:
        raise UsageError(f"unknown entry point '{entry}'{nearest(entry, ENTRIES)}")
    given: dict[str, Any] = {}
    while rest:
        name = rest.pop(0)
        given[name.removeprefix("--").replace("-", "_")] = _value(entry, name, rest)
    given.pop("threads", None)  # numpy chooses its own
    options = Options(entry, **given)
    _check_together(options)
    return options


def _value(entry: str, name: str, rest: list[str]) -> object:
    """The value of an option, taken off what follows it."""
    if name in _LACKING:
        raise UsageError(f"the reference backend has no {name}: compile with --backend c to use it")
    known = (*_FILES, *_NUMBERS, _SHARE, _PROMPT, "--threads", "--no-shuffle")
    if name not in known:
        raise UsageError(f"unknown option '{name}'{nearest(name, known)}")
    others = {"--threads": _RUNS, _SHARE: ("train", "eval"), "--eval-seed": ("train", "eval")}
    others |= dict.fromkeys((_PROMPT, "--tokens", "--stop"), ("generate",))
    entries = {**_FILES, **others}.get(name, ("train",))
    if entry not in entries:
        raise UsageError(f"{name} is not an option of '{entry}'")
    if name == "--no-shuffle":
        return True
    if not rest:
        raise UsageError(f"{name} needs a value")
    text = rest.pop(0)
    if name in _FILES:
        return Path(text)
    if name == _PROMPT:
        return text
    if name == _SHARE:
        return _share(text)
    least = _NUMBERS.get(name, 1)
    if not text.isascii() or not text.isdigit() or not least <= int(text) < 1 << 63:
        raise UsageError(f"{name} takes a whole number of at least {least}, not '{text}'")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(f"{_SHARE} takes a number between 0 and 1, such as 0.2, not '{text}'")
    return share


def _check_together(options: Options) -> None:
    if options.entry == "generate" and options.prompt_tokens is None:
        raise UsageError("generate needs --prompt-tokens, such as 1,2,3")
    if options.entry in _DATA and options.data is None:
        raise UsageError(f"{options.entry} needs --data")
    if options.entry == "train" and not options.steps and not options.epochs:
        raise UsageError("train needs --steps or --epochs")
    if options.entry == "predict" and options.out is None:
        raise UsageError("predict needs --out")
    if options.eval_data is not None and options.eval_share:
        raise UsageError("--eval-data and --eval-share exclude each other")
    if options.eval_every and options.eval_data is None and not options.eval_share:
        raise UsageError("--eval-every needs --eval-data or --eval-share")
    if options.eval_seed is not None and not options.eval_share:
        raise UsageError("--eval-seed needs --eval-share")
    outputs = [path for path in (options.save, options.save_trained, options.report, options.out) if path is not None]
    if len(set(outputs)) < len(outputs):
        raise UsageError("two outputs name the same file")


def asked_tokens(options: Options, generation: Generation) -> tuple[list[int], int]:
    """The prompt, and how many tokens are to follow: 64, or what there is room for. Raises UsageError."""
    words = [word.strip() for word in (options.prompt_tokens or "").split(",")]
    for word in words:
        if not word.isascii() or not word.isdigit() or len(word) > 18:
            raise UsageError(f"--prompt-tokens takes whole numbers such as 1,2,3, not '{word[:40]}'")
        if int(word) >= generation.token.limit:
            raise UsageError(f"the prompt's token {word} is not in the vocabulary of 0 to {generation.token.limit - 1}")
    context = generation.position.limit
    if len(words) > context:
        raise UsageError(f"the prompt has {len(words)} tokens, and the model was compiled for sequences of {context}")
    most = context - len(words) + 1
    if options.tokens is not None and options.tokens > most:
        raise UsageError(
            f"after a prompt of {len(words)} tokens there is room for {most}, not --tokens {options.tokens}: the model "
            f"was compiled for sequences of {context}"
        )
    return [int(word) for word in words], options.tokens or min(64, most)
