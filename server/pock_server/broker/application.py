"""The Celery application: one queue, one task, JSON alone, no results."""

from contextlib import closing

from celery import Celery

from pock_server.settings import Settings

QUEUE = "pock-builds"
TASK = "pock.build"
_CONNECT_SECONDS = 1.0
_ANSWER_SECONDS = 1.0
_INSPECT_SECONDS = 2.0
_WORKER_ANSWER_SECONDS = 15.0
"""Longer than the second for which a worker asks Redis for the next message."""
_SPARE_SECONDS = 1800.0
"""For the preparation of the target, which comes before a build's time begins, and for storing what came out."""


def make_application(settings: Settings, patient: bool = False) -> Celery:
    """Connects when it is used. A patient one, of a worker, tries for ever; the other ones give up within seconds."""
    transport: dict[str, object] = {
        "visibility_timeout": visibility_seconds(settings),
        "socket_connect_timeout": _CONNECT_SECONDS,
        "socket_timeout": _WORKER_ANSWER_SECONDS if patient else _ANSWER_SECONDS,
        "socket_keepalive": True,
    }
    if not patient:
        transport |= {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
    application = Celery("pock", broker=settings.broker_url, set_as_current=False)
    application.conf.update(
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options=transport,
        task_default_queue=QUEUE,
        task_create_missing_queues=False,
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        result_backend=None,
        task_acks_late=True,
        task_acks_on_failure_or_timeout=True,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_send_task_events=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        enable_utc=True,
    )
    return application


def visibility_seconds(settings: Settings) -> int:
    """After this time Redis delivers a message again that nobody acknowledged: longer than builds and searches take."""
    return int(max(settings.build_timeout_seconds, settings.search_timeout_seconds) + _SPARE_SECONDS)


def ping(settings: Settings) -> None:
    """Ask the broker for a sign of life, for a few seconds at most; raises what is wrong."""
    with make_application(settings).connection_for_write() as connection:
        connection.default_channel.client.ping()


def count_workers(settings: Settings) -> int:
    """How many workers answer within two seconds."""
    with closing(make_application(settings)) as application:
        return len(application.control.inspect(timeout=_INSPECT_SECONDS).ping() or {})
