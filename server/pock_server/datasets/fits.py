"""Which models a dataset fits, by the inputs of what was built of them."""

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session

from pock_server.artifacts.tables import ArtifactRecord
from pock_server.builds.schemas import BuildKind
from pock_server.builds.tables import BuildRecord
from pock_server.datasets.schemas import FitsOut, ModelFitOut
from pock_server.datasets.tables import DatasetRecord
from pock_server.http.problems import Problem
from pock_server.models.tables import ModelRecord
from pock_server.runs.service import check_dataset

_MOST_MODELS = 100


def fits(session: Session, dataset: DatasetRecord) -> FitsOut:
    """Each model that has an artifact, newest build first: nobody but a build knows a model's inputs."""
    built = (
        select(BuildRecord.model_id, func.max(BuildRecord.created_at).label("newest"))
        .join(ArtifactRecord, _made_by())
        .where(BuildRecord.workspace_id == dataset.workspace_id, BuildRecord.kind == BuildKind.MODEL)
        .group_by(BuildRecord.model_id)
        .order_by(func.max(BuildRecord.created_at).desc())
        .limit(_MOST_MODELS)
        .subquery()
    )
    rows = session.execute(
        select(ModelRecord, BuildRecord, ArtifactRecord)
        .join(built, built.c.model_id == ModelRecord.id)
        .join(BuildRecord, (BuildRecord.model_id == ModelRecord.id) & (BuildRecord.created_at == built.c.newest))
        .join(ArtifactRecord, _made_by())
        .where(ModelRecord.workspace_id == dataset.workspace_id)
        .order_by(BuildRecord.created_at.desc(), BuildRecord.id.desc())
    )
    seen: dict[str, ModelFitOut] = {}
    for model, build, artifact in rows:
        seen.setdefault(model.id, _fit(dataset, model, build, artifact))
    return FitsOut(items=list(seen.values()))


def _made_by() -> ColumnElement[bool]:
    same_workspace = ArtifactRecord.workspace_id == BuildRecord.workspace_id
    return and_(same_workspace, ArtifactRecord.digest == BuildRecord.artifact_digest)


def _fit(dataset: DatasetRecord, model: ModelRecord, build: BuildRecord, artifact: ArtifactRecord) -> ModelFitOut:
    reason = ""
    try:
        check_dataset(dataset, artifact)
    except Problem as problem:
        reason = problem.detail
    return ModelFitOut(
        model_id=model.id,
        model_name=model.name,
        model_version=model.version,
        build_id=build.id,
        fits=reason == "",
        reason=reason,
    )
