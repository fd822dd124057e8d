"""What the compiler can do, as a worker described it: this process must not import the compiler."""

import difflib
from dataclasses import dataclass
from typing import Any

from sqlalchemy import update

from pock_server.clock import Clock
from pock_server.db.insert import insert_if_absent
from pock_server.db.unit import Database
from pock_server.http.problems import Failure, Problem
from pock_server.targets.tables import CompilerRecord

_ID = 1


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
class Compilers:
    """Keeps the description; read on every use, because a newer worker, on any host, may have replaced it."""

    database: Database
    clock: Clock

    def store(self, version: str, targets: list[dict[str, Any]]) -> None:
        """Replace the description."""
        values = {"version": version, "targets": targets, "described_at": self.clock.now()}
        with self.database.write() as unit:
            if insert_if_absent(unit.session, CompilerRecord, id=_ID, **values) is None:
                unit.session.execute(update(CompilerRecord).where(CompilerRecord.id == _ID).values(**values))

    def load(self) -> Compiler:
        """The description; raises a 503 `Problem` while no worker has given one."""
        with self.database.read() as session:
            found = session.get(CompilerRecord, _ID)
        if found is None:
            detail = "No build worker has described the compiler yet; try again in a few seconds."
            raise Problem(Failure.COMPILER_UNKNOWN, detail, {"Retry-After": "2"})
        return Compiler(found.version, tuple(found.targets))
