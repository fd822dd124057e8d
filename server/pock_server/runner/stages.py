"""How long each stage of a build took, as its child and its runner tell them."""

import time
from dataclasses import dataclass, field

from pock_server.observing.facts import Stage


@dataclass
class StageClock:
    """A stage lasts until the next one begins."""

    done: list[Stage] = field(default_factory=list)
    _name: str | None = None
    _began: float = 0.0

    def begin(self, name: str | None) -> None:
        """This stage begins, or goes on; None: all of them are over."""
        if name == self._name:
            return
        now = time.time()
        if self._name is not None and len(self.done) < 200:
            self.done.append(Stage(self._name, self._began, max(now, self._began)))
        self._name, self._began = name, now
