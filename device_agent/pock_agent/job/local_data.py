"""Brings data of this device into a job's folder: a copy, so that nothing that happens to the file reaches the job.

The copy is verified like what came from the service, and kept until the job is over: a job that pauses goes on with the
very data that it began with. What is said of trouble has no paths: it goes to the service.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

from pock_agent.disk.blobs import file_digest
from pock_agent.disk.local_data import LocalData
from pock_agent.errors import FailureCode, JobFailed, is_disk_full
from pock_agent.job.control import JobControl
from pock_agent.job.workplace import place_file
from pock_agent.settings import Settings
from pock_agent.trust.manifest import LocalSource, Manifest

_CHUNK = 1 << 20


def place_local(folder: Path, manifest: Manifest, data: LocalData, control: JobControl, settings: Settings) -> None:
    """Have the job's local data beside what was downloaded. JobFailed where it is not what the run was asked for."""
    for name, wanted in (("train", manifest.train_data), ("eval", manifest.eval_data)):
        if isinstance(wanted, LocalSource):
            copy = folder / "local" / f"{name}.safetensors"
            _check_named(wanted, data)
            if not copy.exists() or file_digest(copy) != wanted.sha256:
                _copy(wanted, data, copy, control, settings)
            place = folder / "data" / copy.name
            place.parent.mkdir(exist_ok=True, mode=0o755)
            place_file(copy, place)


def _check_named(wanted: LocalSource, data: LocalData) -> None:
    found = data.all().get(wanted.name)
    if found is None:
        raise JobFailed(FailureCode.BAD_DATA, f"the data {wanted.name!r} is no longer on this device")
    if found.sha256 != wanted.sha256:
        raise JobFailed(FailureCode.BAD_DATA, f"the data {wanted.name!r} was replaced since the run was asked for")


def _copy(wanted: LocalSource, data: LocalData, copy: Path, control: JobControl, settings: Settings) -> None:
    source = Path(data.all()[wanted.name].path)
    copy.parent.mkdir(exist_ok=True, mode=0o755)
    with contextlib.suppress(FileNotFoundError):
        copy.unlink()
    if shutil.disk_usage(copy.parent).free < wanted.size + settings.disk_reserve_bytes:
        detail = f"the data {wanted.name!r} has {wanted.size} bytes, and the disk has no room for a copy"
        raise JobFailed(FailureCode.DISK_FULL, detail)
    try:
        digest = _copy_bytes(source, copy, wanted.size, control)
    except OSError as error:
        code = FailureCode.DISK_FULL if is_disk_full(error) else FailureCode.BAD_DATA
        raise JobFailed(code, f"the data {wanted.name!r} cannot be copied: {error.strerror}") from error
    if digest != wanted.sha256:
        copy.unlink()
        raise JobFailed(
            FailureCode.BAD_DATA,
            f"the data {wanted.name!r} changed since it was named; name it anew on the device: pock-agent data add",
        )
    os.chmod(copy, 0o444)


def _copy_bytes(source: Path, copy: Path, size: int, control: JobControl) -> str:
    """The digest of what was copied; of a file that has grown, no more than the size is."""
    digest, left = hashlib.sha256(), size + 1
    with source.open("rb") as read, copy.open("wb") as written:
        while left and (chunk := read.read(min(_CHUNK, left))):
            control.check()
            written.write(chunk)
            digest.update(chunk)
            left -= len(chunk)
    return digest.hexdigest()
