"""Reads a Dockerfile as far as its tests need: stages, their instructions, the files that a build's context has."""

import fnmatch
import json
import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
WEB_DIST = Path("server/pock_server/web_dist")


@dataclass
class Stage:
    """One `FROM … AS name`."""

    name: str
    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, kind: str) -> list[str]:
        """The texts of the instructions of one kind, in order."""
        return [text for found, text in self.instructions if found == kind]

    def copies(self) -> list[tuple[str | None, list[str], str]]:
        """(stage or None, sources, destination) of each COPY."""
        return [_copy(text) for text in self.all("COPY")]


def read_dockerfile(text: str) -> dict[str, Stage]:
    """Stages by name; arguments before the first stage are put in where a FROM names them."""
    arguments: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    last: Stage | None = None
    for line in _logical_lines(text):
        kind, _, rest = line.partition(" ")
        if kind == "FROM":
            base, _, name = re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], rest).partition(" AS ")
            last = stages[name] = Stage(name, base)
        elif last is None:
            assert kind == "ARG", line
            name, _, value = rest.partition("=")
            arguments[name] = value
        else:
            last.instructions.append((kind, rest.strip()))
    return stages


def lineage(stages: dict[str, Stage], name: str) -> list[Stage]:
    """A stage and those that it stands on, the lowest first."""
    found: list[Stage] = []
    while name in stages:
        found.insert(0, stages[name])
        name = stages[name].base
    return found


def environment(stages: dict[str, Stage], name: str) -> dict[str, str]:
    """The ENV of an image; `$PATH` stays as it is written."""
    pairs = [pair for stage in lineage(stages, name) for text in stage.all("ENV") for pair in shlex.split(text)]
    return dict(pair.split("=", 1) for pair in pairs)


def command_of(text: str) -> list[str]:
    """The list that a CMD, or a HEALTHCHECK's CMD, is."""
    found: list[str] = json.loads(text[text.index("[") :])
    return found


def context_files() -> list[str]:
    """What the checkout has for git and `.dockerignore` lets through, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    names = listed.stdout.split("\0")
    return [name for name in names if name and (ROOT / name).is_file() and not ignored(name, rules)]


def ignored(name: str, rules: list[str]) -> bool:
    """Whether `.dockerignore` leaves a file out: the last rule that fits it, or a folder of it, decides."""
    answer = False
    parts = name.split("/")
    folders = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    for rule in rules:
        pattern = rule.removeprefix("!")
        anywhere = pattern.removeprefix("**/")
        candidates = folders if anywhere == pattern else parts
        if any(fnmatch.fnmatchcase(candidate, anywhere) for candidate in candidates):
            answer = not rule.startswith("!")
    return answer


def _logical_lines(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [line.strip() for line in "\n".join(lines).replace("\\\n", " ").splitlines()]


def _copy(text: str) -> tuple[str | None, list[str], str]:
    words = text.split()
    options = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
    places = [word for word in words if not word.startswith("--")]
    return options.get("from"), places[:-1], places[-1]
