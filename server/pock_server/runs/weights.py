"""Weights that a run begins with, and those that it trained: which ones they are, and in which form they travel."""

from datetime import datetime

from sqlalchemy.orm import Session

from pock_server.artifacts.repository import Artifacts
from pock_server.blobs.repository import Blobs
from pock_server.blobs.tables import BlobRecord
from pock_server.builds.repository import Builds
from pock_server.builds.tables import BuildRecord
from pock_server.devices.features import Feature, knows, require
from pock_server.devices.repository import Devices
from pock_server.devices.tables import DeviceRecord
from pock_server.http.problems import Failure, Problem
from pock_server.runs.repository import Runs
from pock_server.runs.schemas import Entry, RunIn, WeightsForm
from pock_server.runs.tables import RunRecord

PARAMETERS = "params.safetensors"
"""The artifact's member that deltas belong to."""
_DIGEST_LENGTH = 64


def choose_initial(
    session: Session, order: RunIn, device: DeviceRecord, build: BuildRecord, now: datetime
) -> str | None:
    """The digest of the weights that a run is to begin with, kept until the end of the transaction; a `Problem` says
    why it cannot."""
    if order.weights_of is None:
        return None
    require(device, Feature.INITIAL_WEIGHTS)
    digest = weights_named(session, order.weights_of, build)
    return Blobs(session, device.workspace_id).take(digest, now).digest


def weights_named(session: Session, weights_of: str, build: BuildRecord) -> str:
    """The digest of the weights for a build's run that the id of a run, or a digest, means; a `Problem` if none."""
    if len(weights_of) == _DIGEST_LENGTH:
        return weights_of
    run_id, workspace_id = weights_of, build.workspace_id
    run = Runs(session, workspace_id).require(run_id)
    if run.weights_digest is None:
        raise Problem(Failure.STATE_CONFLICT, f"Run {run_id} is {run.state} and has no weights to go on from.")
    bases = {_base(session, one) for one in (build, Builds(session, workspace_id).require(run.build_id))}
    if sent_as(run) == WeightsForm.DELTA and len(bases - {None}) > 1:
        detail = (
            f"The weights of run {run_id} are a delta of other weights than this build's; use a build of that model."
        )
        raise Problem(Failure.STATE_CONFLICT, detail)
    return run.weights_digest


def _base(session: Session, build: BuildRecord) -> str | None:
    """The digest of the weights that deltas of the build's runs belong to; None while, or when, they are not there."""
    artifact = Artifacts(session, build.workspace_id).find(build.artifact_digest or "")
    member = {} if artifact is None else artifact.members.get(PARAMETERS, {})
    return member.get("sha256")


def initial_blob(session: Session, run: RunRecord) -> BlobRecord | None:
    """The weights that a run begins with; None for those of its artifact."""
    digest = run.initial_weights_digest
    return None if digest is None else Blobs(session, run.workspace_id).require(digest)


def comes_as_delta(session: Session, run: RunRecord) -> bool:
    """Whether the device is asked for what changed, instead of all weights."""
    if not run.save_weights or run.entry != Entry.TRAIN or run.weights_form != WeightsForm.DELTA:
        return False
    return knows(Devices(session, run.workspace_id).require(run.device_id), Feature.WEIGHTS_DELTA)


def take_trained(session: Session, run: RunRecord, digest: str, form: WeightsForm, now: datetime) -> None:
    """Keep the weights that a device has uploaded."""
    blobs = Blobs(session, run.workspace_id)
    blob = blobs.take(digest, now)
    blobs.use(run.id, (digest,))
    build = Builds(session, run.workspace_id).require(run.build_id)
    artifact = Artifacts(session, run.workspace_id).find(build.artifact_digest or "")
    full = None if artifact is None else artifact.members.get(PARAMETERS, {}).get("size")
    run.weights_digest, run.weights_sent_as = digest, form
    run.weights_bytes, run.full_weights_bytes = blob.size, full


def sent_as(run: RunRecord) -> WeightsForm | None:
    """As what a run's weights came; None if it has none."""
    if run.weights_digest is None:
        return None
    return WeightsForm(run.weights_sent_as or WeightsForm.SAFETENSORS)
