"""One request or task is one transaction, and its messages go out only after the commit."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from sqlalchemy import Engine
from sqlalchemy.orm import Session, sessionmaker

from pock_server.actor import SERVICE, Actor
from pock_server.db.bells import carry
from pock_server.db.engine import BEGIN, for_reading
from pock_server.hub import Hub
from pock_server.observing.facts import Fact


class Unit:
    """A write transaction, on whose behalf it runs, and the topics to announce once it is committed."""

    def __init__(self, session: Session, by: Actor) -> None:
        self.session = session
        self.by = by
        self._topics: list[str] = []
        self.facts: list[Fact] = []

    @property
    def topics(self) -> tuple[str, ...]:
        """What will be announced, in order and without repeats."""
        return tuple(dict.fromkeys(self._topics))

    def happened(self, fact: Fact) -> None:
        """Have this logged and counted after the commit, or never if it fails."""
        self.facts.append(fact)

    def announce(self, *topics: str) -> None:
        """Ring these topics' bells after the commit, or never if it fails."""
        self._topics.extend(topics)


class Database:
    """Opens read and write transactions."""

    def __init__(self, engine: Engine, hub: Hub, observe: Callable[[Fact], None] = lambda fact: None) -> None:
        self.engine = engine
        self._hub = hub
        self._observe = observe
        self._readers = sessionmaker(for_reading(engine), expire_on_commit=False)
        # SQLite has one writer at a time, and its busy handler sleeps: the threads of this process queue here instead.
        self._turn: AbstractContextManager[object] = (
            threading.Lock() if engine.dialect.name == "sqlite" else nullcontext()
        )
        self._writers = sessionmaker(engine.execution_options(**{BEGIN: "IMMEDIATE"}), expire_on_commit=False)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """For queries only. On SQLite they see one moment, on PostgreSQL each query sees its own, as it does in every
        transaction here (READ COMMITTED)."""
        with self._readers() as session:
            yield session

    @contextmanager
    def write(self, by: Actor = SERVICE) -> Iterator[Unit]:
        """A transaction that is committed at the end of the block, or rolled back by an exception."""
        with self._turn, self._writers() as session:
            unit = Unit(session, by)
            yield unit
            carry(session, self._hub.name, unit.topics)
            session.commit()
        for topic in unit.topics:
            self._hub.ring(topic)
        for fact in unit.facts:
            self._observe(fact)
