"""The broker of build workers, and whether there are any."""

from collections.abc import Iterator

from pock_server.doctor.findings import Finding, fail, ok, warn
from pock_server.settings import Settings

_ITEM = "broker"


def check(settings: Settings) -> Iterator[Finding]:
    """It answers, and so do workers; nothing where builds need none."""
    if settings.runner != "celery":
        return
    if not settings.broker_url:
        yield fail(_ITEM, "POCK_RUNNER=celery needs POCK_BROKER_URL, such as redis://host:6379/0.")
        return
    from pock_server.broker.application import count_workers, ping, visibility_seconds

    try:
        ping(settings)
    except Exception as error:
        yield fail(_ITEM, f"it does not answer: {error}; is it up, and POCK_BROKER_URL right?")
        return
    yield ok(_ITEM, f"answers; a message that nobody acknowledged comes back after {visibility_seconds(settings)} s")
    workers = count_workers(settings)
    if workers:
        yield ok("workers", f"{workers} answer")
    else:
        yield warn("workers", "none answers: builds wait until a `pock-server worker` is started.")
