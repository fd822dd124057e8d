"""Asks what the settings name whether it can be used, before anything serves or builds.

A database or store that cannot be used stops the command. So does a broker that refuses; one that is merely away does
not, because builds wait in the database until it is back.
"""

import logging
import os
from pathlib import Path

from sqlalchemy import text

from pock_server.services import Services
from pock_server.settings import Settings, UnusableSetting

_log = logging.getLogger(__name__)


def check_outside(services: Services) -> None:
    """Raises what `faults.explain` knows."""
    with services.database.read() as session:
        session.execute(text("SELECT 1"))
    services.blobs.check()
    if services.settings.broker_url:
        _check_broker(services.settings)


def check_folders(settings: Settings, builds: bool) -> None:
    """Make the folders that this process needs, and see that it may write in them; raises `UnusableSetting`."""
    needed: list[tuple[str, Path]] = []
    if not settings.database_url or not settings.store_url:
        needed.append(("POCK_DATA_DIR", settings.data_dir))
    if builds:
        needed.append(("POCK_WORK_DIR" if settings.work_dir else "POCK_DATA_DIR", settings.effective_work_dir))
        name = "POCK_BUILD_CACHE_DIR" if settings.build_cache_dir else "POCK_DATA_DIR"
        needed.append((name, settings.effective_build_cache_dir))
    for name, folder in needed:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnusableSetting.place(name, folder, error.strerror or str(error)) from None
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise UnusableSetting.place(name, folder, f"user {os.geteuid()} may not write in it")


def _check_broker(settings: Settings) -> None:
    from kombu.exceptions import OperationalError
    from redis.exceptions import AuthenticationError, AuthorizationError, ResponseError

    from pock_server.broker.application import ping

    try:
        ping(settings)
    except OperationalError as error:
        if isinstance(error.__cause__, AuthenticationError | AuthorizationError | ResponseError):
            raise UnusableSetting(
                f"the broker refuses: {str(error).rstrip('.')}; correct password and database number in POCK_BROKER_URL"
            ) from None
        _log.error("the broker does not answer, and builds wait for it: %s; is POCK_BROKER_URL right?", error)
