"""What the compiler can do, as a worker described it: this process must not import the compiler."""

import difflib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pock_server.http.problems import Failure, Problem


@dataclass(frozen=True)
class Compiler:
    """The compiler as its worker described it; `version` changes whenever its output might."""

    version: str
    targets: tuple[dict[str, Any], ...]

    def require_target(self, name: str) -> dict[str, Any]:
        """The target's description; raises a 422 `Problem` that names the nearest target if there is none."""
        for target in self.targets:
            if target["name"] == name:
                return target
        names = [str(target["name"]) for target in self.targets]
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(names)}."
        raise Problem(Failure.BAD_ARGUMENT, f"There is no target {name!r}; {hint}")


@dataclass(frozen=True)
class CompilerFile:
    """The description at `path`; read on every use, because a newer worker may have replaced it."""

    path: Path

    def store(self, version: str, targets: list[dict[str, Any]]) -> None:
        """Replace the description, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps({"version": version, "targets": targets}, sort_keys=True), encoding="utf-8")
        draft.replace(self.path)

    def load(self) -> Compiler:
        """The description; raises a 503 `Problem` while no worker has written it."""
        try:
            found = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            detail = "No build worker has described the compiler yet; try again in a few seconds."
            raise Problem(Failure.COMPILER_UNKNOWN, detail, {"Retry-After": "2"}) from None
        return Compiler(str(found["version"]), tuple(found["targets"]))
