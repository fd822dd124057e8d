"""Lists ONNX's node tests that do not pass: `python -m benchmarks.node_tests --backend c [--operator Resize]`; or
writes the table of both backends: `python -m benchmarks.node_tests --write docs/onnx-node-tests.md`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .backends import Run, run_interpreter
from .cases import Case, all_cases, eligible_cases
from .machine_code import run_machine_code
from .table import table

BACKENDS: dict[str, Run] = {"interp": run_interpreter, "c": run_machine_code}


def main() -> None:
    options = _options()
    if options.write:
        verdicts = {backend: run(all_cases()) for backend, run in BACKENDS.items()}
        options.write.write_text(table(all_cases(), verdicts))
        return
    chosen = all_cases() if options.all else eligible_cases()
    if options.operator:
        chosen = tuple(case for case in chosen if case.operator == options.operator)
    _list(chosen, options.backend)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run ONNX's node tests and list those that fail, by operator.")
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="interp")
    parser.add_argument("--operator", help="only this operator's cases")
    parser.add_argument("--all", action="store_true", help="also cases that are not eligible")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="run everything and write the table to this page")
    return parser.parse_args()


def _list(cases: tuple[Case, ...], backend: str) -> None:
    verdicts = BACKENDS[backend](cases)
    operator = ""
    for case in cases:
        failure = verdicts[case.name]
        if failure is None:
            continue
        if case.operator != operator:
            operator = case.operator
            print(operator)
        print(f"    {case.name}{f' [{case.exclusion}]' if case.exclusion else ''}: {failure.reason}")
    passed = sum(failure is None for failure in verdicts.values())
    print(f"{passed} of {len(cases)} cases pass on {backend}")


if __name__ == "__main__":
    main()
