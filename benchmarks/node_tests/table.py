"""The published table: docs/onnx-node-tests.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import onnx

from .backends import Verdict
from .cases import NOT_PASSED, Case

Verdicts = Mapping[str, dict[str, Verdict]]
"""Backend -> case name -> verdict."""

NAMES = {"interp": "interpreter", "c": "C backend"}

_INTRODUCTION = """\
# ONNX's own node tests

`onnx.backend.test` (onnx {version}) has {cases} node tests: models of mostly one operator, with inputs and expected
outputs. `python -m benchmarks.node_tests --write docs/onnx-node-tests.md` runs them on the numpy interpreter and as
machine code of the C backend (through the planner and the runtime's core), and writes this page. What passes here is
kept passing by `tests/compiler/frontends/onnx/test_onnx_suite.py`.

A case is *eligible* when every tensor that goes in or out is f32, bool or an integer of 8 to 64 bits, when its output
shapes are fixed once the inputs that ONNX reads as shapes, axes and counts are constants, and when it has no sub-graph,
string, sequence, optional or quantised type. The rule is code: `benchmarks/node_tests/cases.py`. A case passes when
types and shapes are those expected and all numbers lie within ONNX's tolerance (relative 1e-3, absolute 1e-7).
"""


def table(cases: Sequence[Case], verdicts: Verdicts) -> str:
    """The page as Markdown."""
    eligible = [case for case in cases if case.exclusion is None]
    parts = [
        _INTRODUCTION.format(version=onnx.__version__, cases=len(cases)),
        _summary(eligible, verdicts),
        _failures(eligible, verdicts),
        _excluded([case for case in cases if case.exclusion is not None], verdicts),
        _operators(eligible, verdicts),
    ]
    return "\n".join(parts)


def _passed(cases: Iterable[Case], verdicts: dict[str, Verdict]) -> int:
    return sum(verdicts[case.name] is None for case in cases)


def _summary(eligible: Sequence[Case], verdicts: Verdicts) -> str:
    known = [case for case in eligible if not case.feeds]
    computed = [case for case in eligible if case.feeds]
    both = sum(all(found[case.name] is None for found in verdicts.values()) for case in eligible)
    header = ["", "cases", *(f"pass on the {NAMES[backend]}" for backend in verdicts)]
    rows = [
        _row("eligible", eligible, verdicts, share=True),
        _row("… with inputs at run time", computed, verdicts),
        _row("… whose inputs are all shapes and counts, so that the result is known when compiling", known, verdicts),
    ]
    text = f"{both} of {len(eligible)} eligible cases ({both / len(eligible):.1%}) pass on both."
    return f"{_markdown(header, rows)}\n{text}\n"


def _row(title: str, cases: Sequence[Case], verdicts: Verdicts, share: bool = False) -> list[str]:
    counts = [_passed(cases, found) for found in verdicts.values()]
    return [title, str(len(cases)), *(f"{n} ({n / len(cases):.1%})" if share else str(n) for n in counts)]


def _failures(eligible: Sequence[Case], verdicts: Verdicts) -> str:
    rows = [
        [case.operator, f"`{case.name}`", NAMES[backend], _cell(NOT_PASSED.get(case.name, failure.reason))]
        for case in eligible
        for backend, found in verdicts.items()
        if (failure := found[case.name]) is not None
    ]
    if not rows:
        return "## Eligible cases that do not pass\n\nNone.\n"
    return f"## Eligible cases that do not pass\n\n{_markdown(['operator', 'case', 'on', 'why'], rows)}"


def _excluded(cases: Sequence[Case], verdicts: Verdicts) -> str:
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.exclusion or "", []).append(case)
    header = ["reason", "cases", *(f"pass on the {NAMES[backend]} all the same" for backend in verdicts), "operators"]
    rows = [
        [*_row(reason, group, verdicts), ", ".join(sorted({case.operator for case in group}))]
        for reason, group in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    return f"## Cases that are not eligible\n\n{_markdown(header, rows)}"


def _operators(eligible: Sequence[Case], verdicts: Verdicts) -> str:
    header = ["operator", "cases", *(NAMES[backend] for backend in verdicts)]
    rows = [_row(name, list(cases), verdicts) for name, cases in groupby(eligible, key=lambda case: case.operator)]
    return f"## Eligible cases by operator\n\n{_markdown(header, rows)}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [
        header,
        ["---"] + ["--:" if name not in ("case", "on", "why", "operators") else "---" for name in header[1:]],
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in [*lines, *rows]) + "\n"
