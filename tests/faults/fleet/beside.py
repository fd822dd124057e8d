"""Work in a thread of its own, beside what is done to the fleet."""

import threading
from abc import ABC, abstractmethod
from typing import Self


class Beside(ABC):
    """Goes on until it is ended. What goes wrong in it is raised by `check`, and at the end."""

    def __init__(self) -> None:
        self.ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded)

    @abstractmethod
    def work(self) -> None:
        """Until `ending` is set."""

    def check(self) -> None:
        """Raise what went wrong, if something did."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self._thread.join()
        self.check()

    def _guarded(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self._error = error
