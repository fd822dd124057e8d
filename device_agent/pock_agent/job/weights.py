"""Weights that come with a job and go back from it, in the form that they travel in (`pock_agent.weights`)."""

from __future__ import annotations

import shutil
from pathlib import Path

from pock_agent.connection import backoff
from pock_agent.connection.service import Service
from pock_agent.disk.blobs import Blob, file_digest
from pock_agent.errors import FailureCode, JobFailed, LeaseLost, ServiceCode, ServiceError, Unreachable
from pock_agent.job.control import JobControl
from pock_agent.job.spool import told
from pock_agent.job.workplace import GIVEN, INITIAL, WEIGHTS, place_file
from pock_agent.settings import MIB, Settings
from pock_agent.trust.manifest import Manifest, WeightsForm
from pock_agent.weights.making import make_delta
from pock_agent.weights.restoring import is_delta, restore
from pock_agent.weights.tensors import MalformedWeights

_BASE = "params.safetensors"
_DELTA = "upload/weights.delta"


def unpack_initial(folder: Path, manifest: Manifest) -> None:
    """Lay the weights to begin with where the executable finds them; they may be a delta. Raises JobFailed."""
    if manifest.initial_weights is None:
        return
    given, initial = folder / GIVEN, folder / INITIAL
    try:
        if not is_delta(given):
            place_file(given, initial)
            return
        base = _base(manifest)
        limit = 2 * base.size + 64 * MIB
        restore(folder / "artifact" / _BASE, base.sha256, given, initial, everything=False, limit=limit)
    except MalformedWeights as error:
        raise JobFailed(FailureCode.BAD_DATA, f"the run cannot begin with these weights: {error}") from error


def pack_trained(folder: Path, manifest: Manifest) -> Path:
    """Make the file of trained weights that the service wants, the same bytes each time. Raises JobFailed."""
    packed = packed_weights(folder, manifest)
    if manifest.run.weights_form is WeightsForm.DELTA:
        base = _base(manifest)
        shutil.rmtree(packed.parent, ignore_errors=True)
        packed.parent.mkdir(mode=0o700)
        try:
            make_delta(folder / "artifact" / _BASE, folder / WEIGHTS, base.sha256, packed)
        except MalformedWeights as error:
            raise JobFailed(FailureCode.CRASHED, f"the model left weights that cannot be read: {error}") from error
    return packed


def packed_weights(folder: Path, manifest: Manifest) -> Path:
    """Where that file is; a delta where the child cannot write."""
    return folder / (WEIGHTS if manifest.run.weights_form is WeightsForm.FULL else _DELTA)


def _base(manifest: Manifest) -> Blob:
    base = manifest.artifact.members.get(_BASE)
    if base is None:
        raise JobFailed(FailureCode.BAD_DATA, f"a delta needs {_BASE}, which this artifact does not have")
    return base


def send(path: Path, service: Service, control: JobControl, settings: Settings) -> None:
    """Upload the file of trained weights, however often that takes. Raises JobFailed, LeaseLost, and what `control`
    raises."""
    digest = file_digest(path)
    failures = 0
    while True:
        control.check_policies()
        try:
            service.upload(digest, path)
            return told.info("the trained weights are uploaded, %.1f MiB", path.stat().st_size / MIB)
        except (Unreachable, ServiceError) as error:
            failures += 1
            if isinstance(error, ServiceError) and error.takes_the_run:
                raise LeaseLost(f"the weights are not wanted any more: {error}") from error
            if isinstance(error, ServiceError) and not error.transient:
                damaged = error.failure_code == ServiceCode.DIGEST_MISMATCH
                code = FailureCode.VERIFICATION if damaged else FailureCode.SERVICE
                raise JobFailed(code, f"the trained weights could not be uploaded: {error}") from error
            pause = backoff.delay(settings, failures, error)
            told.warning("%s; another try in %.1f s", error, pause)
            control.wait(pause)
