"""The checks before a commit are those of `make lint`, with the tools that requirements/dev.txt pins."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def lint() -> list[str]:
    """The commands of the Makefile's `lint`, in order."""
    recipe = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    return [".venv/bin/" + command for command in re.findall(r"^\t@\$\(BIN\)/(.*)$", recipe, re.MULTILINE)]


def test_a_commit_is_checked_as_ci_checks_it() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"
    assert [hook["entry"] for hook in local["hooks"]] == lint() != []
    assert not any(hook["pass_filenames"] for hook in local["hooks"])


def test_the_tools_are_pinned() -> None:
    pinned = set(re.findall(r"^([\w-]+)==", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE))
    packages = {"lint-imports": "import-linter"}
    used = {Path(command.split()[0]).name for command in lint()}
    assert {packages.get(tool, tool) for tool in used} | {"pre-commit"} <= pinned
