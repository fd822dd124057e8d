"""Opens the configured object store: a folder, S3 or what speaks like it, Google Cloud Storage, Azure."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obstore.exceptions import BaseError
from obstore.store import LocalStore, from_url

from pock_server.blobs.store import BlobStore
from pock_server.settings import Settings, UnusableSetting

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_RETRY: "RetryConfig" = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}
"""A request of ours waits for these, so they are shorter than the library's (10 times, 3 minutes)."""
_CLIENT: "ClientConfig" = {
    "connect_timeout": timedelta(seconds=5),
    "read_timeout": timedelta(seconds=30),
    "timeout": timedelta(hours=6),  # of a whole request: a large blob streams as slowly as its reader reads
}


def open_store(settings: Settings) -> BlobStore:
    """The configured store; a folder is made if needed. Raises `UnusableSetting` if the settings describe none."""
    if not settings.store_url or settings.store_url.startswith("file:"):
        return BlobStore(_open_folder(settings))
    try:
        return BlobStore(from_url(settings.store_url, **_remote(settings)))
    except (BaseError, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise UnusableSetting(
            f"POCK_STORE_URL and its companions describe no object store: {reason}; write s3://BUCKET/PREFIX, or leave "
            "POCK_STORE_URL out for a folder"
        ) from None


def _open_folder(settings: Settings) -> LocalStore:
    folder = settings.data_dir.resolve() / "objects"
    try:
        if settings.store_url:
            return LocalStore.from_url(settings.store_url, mkdir=True)
        return LocalStore(folder, mkdir=True)
    except (BaseError, OSError, ValueError) as error:
        name, path = ("POCK_STORE_URL", settings.store_url) if settings.store_url else ("POCK_DATA_DIR", str(folder))
        raise UnusableSetting.place(name, Path(path), str(error).partition("\n")[0]) from None


def _remote(settings: Settings) -> dict[str, Any]:
    """What the URL does not say; the library adds what it finds in `AWS_*` variables where these are empty."""
    client: ClientConfig = {**_CLIENT}
    options = {
        "endpoint": settings.store_endpoint,
        "region": settings.store_region,
        "access_key_id": settings.store_access_key,
        "secret_access_key": settings.store_secret_key,
    }
    if settings.store_endpoint.startswith("http://"):
        client["allow_http"] = True
    given = {name: value for name, value in options.items() if value}
    return {**given, "client_options": client, "retry_config": _RETRY}
