"""What is known of the request or task at hand; every log line written meanwhile carries it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from uuid import uuid4

REQUEST_ID = "X-Request-Id"
_FORM = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)


@dataclass
class Task:
    """One request, or one piece of background work. Threads that serve the same request share this object.

    `request_id` becomes that of the run or build that the task turns out to be about; `call_id` then keeps the own one
    of the request. `fields` are further words of its log lines.
    """

    request_id: str
    call_id: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    failure_code: int | None = None
    trace_id: str | None = None
    traceparent: str | None = None

    def adopt(self, request_id: str | None) -> None:
        """From here on, go by the id of the request that asked for this work."""
        if request_id is not None and request_id != self.request_id:
            self.call_id, self.request_id = self.call_id or self.request_id, request_id

    def words(self) -> dict[str, str]:
        """What log lines carry."""
        own = {"request_id": self.request_id, "call_id": self.call_id, "trace_id": self.trace_id}
        return {**{name: value for name, value in own.items() if value is not None}, **self.fields}


_task: ContextVar[Task | None] = ContextVar("pock_task", default=None)


def new_request_id(offered: str | None = None) -> str:
    """The id that the caller offers if it is short and harmless, a fresh one otherwise."""
    return offered if offered is not None and _FORM.fullmatch(offered) else uuid4().hex


def current() -> Task | None:
    """The task at hand."""
    return _task.get()


def request_id() -> str | None:
    """The id of the task at hand."""
    task = _task.get()
    return task.request_id if task else None


def traceparent() -> str | None:
    """The W3C trace context of the task at hand, if it is traced."""
    task = _task.get()
    return task.traceparent if task else None


@contextmanager
def at_hand(task: Task) -> Iterator[Task]:
    """Work on `task` in this block, and in the threads and tasks that it starts."""
    token = _task.set(task)
    try:
        yield task
    finally:
        _task.reset(token)


@contextmanager
def about(request_id: str | None, **fields: str) -> Iterator[Task]:
    """Background work for this request, or for none."""
    with at_hand(Task(request_id or uuid4().hex, fields=fields)) as task:
        yield task


def tell(adopt: str | None = None, **fields: str | None) -> None:
    """Add to what is known of the task at hand; nothing happens outside of one."""
    task = _task.get()
    if task is not None:
        task.adopt(adopt)
        task.fields.update({name: value for name, value in fields.items() if value is not None})
