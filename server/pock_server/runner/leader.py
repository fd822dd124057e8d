"""Of all processes on one PostgreSQL one leads, and sweeps for all: the one that holds an advisory lock.

The lock lasts as long as the connection that took it: when the leader dies, the next one that asks gets it. Two that
believe for a moment that they lead do no harm, as every change is guarded by the row's own lock; the leader only saves
the others the work.
"""

import logging
import threading

import psycopg

from pock_server.db.engine import connection_string, is_postgres
from pock_server.db.locks import Lock, try_to_keep
from pock_server.settings import Settings

_log = logging.getLogger(__name__)


class Leader:
    """This process's candidacy; safe from any thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turn = threading.RLock()
        self._line: psycopg.Connection | None = None
        self._led = False
        self.answered = True
        """Whether the database answered when it was last asked who leads."""

    @property
    def led(self) -> bool:
        """Whether it led when it was last asked."""
        return self._led or not is_postgres(self._settings)

    def leads(self) -> bool:
        """Whether this process leads now; asks for the lock if it is free. The only process on SQLite always leads."""
        if not is_postgres(self._settings):
            return True
        with self._turn:
            try:
                led = self._ask()
            except psycopg.Error as error:
                _log.warning("it cannot be asked who leads: %s", str(error).split("\n")[0])
                self.answered = False
                self.resign()
                return False
            self.answered = True
            if led and not self._led:
                _log.info("this process leads: it sweeps for all")
            self._led = led
            return led

    def _ask(self) -> bool:
        if self._line is None:
            self._line = psycopg.connect(**connection_string(self._settings), autocommit=True)
        if self._led:  # taking it twice would mean giving it back twice
            self._line.execute("SELECT 1")
            return True
        return try_to_keep(self._line, Lock.LEAD)

    def resign(self) -> None:
        """Let another process lead."""
        with self._turn:
            line, self._line, self._led = self._line, None, False
            if line is not None:
                line.close()
