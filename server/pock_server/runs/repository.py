"""Queries on runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, or_, select
from sqlalchemy.orm import Bundle, Session, aliased

from pock_server.builds.tables import BuildRecord
from pock_server.datasets.tables import DatasetRecord
from pock_server.db.repository import Repository
from pock_server.models.tables import ModelRecord
from pock_server.names.schemas import VersionOut
from pock_server.recipes.tables import RecipeRecord
from pock_server.runs.lifecycle import HELD
from pock_server.runs.schemas import RunState
from pock_server.runs.tables import RunRecord, RunStepRecord

_ENDS = (
    ((RunState.QUEUED,), RunRecord.queue_ends_at),
    (HELD, RunRecord.lease_expires_at),
    (HELD, RunRecord.run_ends_at),
)
"""Which moment ends which states."""

STEPS_AT_ONCE = 10_000
MOST_WORDS = 8
"""That runs are searched by."""


@dataclass(frozen=True)
class Origin:
    """What a run is a run of."""

    model: VersionOut
    recipe: VersionOut | None
    build: VersionOut
    dataset: VersionOut | None
    eval_dataset: VersionOut | None


def _version(of: Any) -> Bundle[Any]:
    return Bundle("version", of.id, of.name, of.version)


def _shown(found: Any) -> VersionOut:
    return VersionOut(id=found.id, name=found.name, version=found.version)


def _part(column: Any, word: str) -> ColumnElement[bool]:
    found: ColumnElement[bool] = column.icontains(word, autoescape=True)
    return found


_TURN = (RunRecord.priority.desc(), RunRecord.created_at, RunRecord.id)


class Runs(Repository[RunRecord]):
    """The runs of one workspace."""

    row_class = RunRecord
    noun = "run"

    def called(self, text: str) -> list[ColumnElement[bool]]:
        """That each word of a text is a part of what a run is called: its device, model, scheme, build or data, its id
        or its state. Upper and lower case are alike."""
        return [self._has(word) for word in text.replace("·", " ").split()[:MOST_WORDS]]

    def _has(self, word: str) -> ColumnElement[bool]:
        names = (BuildRecord.name, ModelRecord.name, RecipeRecord.name)
        builds = (
            select(BuildRecord.id)
            .join(ModelRecord, ModelRecord.id == BuildRecord.model_id)
            .outerjoin(RecipeRecord, RecipeRecord.id == BuildRecord.recipe_id)
            .where(BuildRecord.workspace_id == self.workspace_id, or_(*(_part(name, word) for name in names)))
        )
        datasets = select(DatasetRecord.id).where(
            DatasetRecord.workspace_id == self.workspace_id, _part(DatasetRecord.name, word)
        )
        own = (_part(RunRecord.device_name, word), _part(RunRecord.id, word), RunRecord.state == word.lower())
        return or_(*own, RunRecord.build_id.in_(builds), RunRecord.dataset_id.in_(datasets))

    def of_device(self, device_id: str, states: Sequence[RunState]) -> list[RunRecord]:
        """The device's runs in these states, in the order in which it takes them."""
        query = self.select().where(RunRecord.device_id == device_id, RunRecord.state.in_(states))
        return list(self.session.scalars(query.order_by(*_TURN)))

    def held_by(self, device_id: str) -> RunRecord | None:
        """The run that the device holds a lease on."""
        return next(iter(self.of_device(device_id, HELD)), None)

    def next_queued(self, device_id: str, now: datetime) -> RunRecord | None:
        """The run that the device is to take next."""
        query = self.select().where(RunRecord.device_id == device_id, _ready(now)).order_by(*_TURN).limit(1)
        return self.session.scalars(query).one_or_none()

    def has_work(self, device_id: str, now: datetime) -> bool:
        """Whether the device holds a run, or could take one."""
        mine = (RunRecord.workspace_id == self.workspace_id) & (RunRecord.device_id == device_id)
        return bool(self.session.scalar(select(exists().where(mine, RunRecord.state.in_(HELD) | _ready(now)))))

    def queue_positions(self, rows: Iterable[RunRecord]) -> dict[str, int]:
        """Place in their devices' queues of the queued ones among `rows`, 1 is next."""
        devices = {row.device_id for row in rows if row.state == RunState.QUEUED}
        places: dict[str, int] = {}
        for device_id in devices:
            for place, row in enumerate(self.of_device(device_id, (RunState.QUEUED,)), start=1):
                places[row.id] = place
        return places

    def origins(self, rows: Iterable[RunRecord]) -> dict[str, Origin]:
        """What each of these runs is a run of, by its id."""
        evaluation = aliased(DatasetRecord)
        things = (ModelRecord, RecipeRecord, BuildRecord, DatasetRecord, evaluation)
        query = (
            select(RunRecord.id, *map(_version, things))
            .join(BuildRecord, BuildRecord.id == RunRecord.build_id)
            .join(ModelRecord, ModelRecord.id == BuildRecord.model_id)
            .outerjoin(RecipeRecord, RecipeRecord.id == BuildRecord.recipe_id)
            .outerjoin(DatasetRecord, DatasetRecord.id == RunRecord.dataset_id)
            .outerjoin(evaluation, evaluation.id == RunRecord.eval_dataset_id)
            .where(RunRecord.workspace_id == self.workspace_id, RunRecord.id.in_([row.id for row in rows]))
        )
        return {
            run_id: Origin(
                model=_shown(model),
                recipe=_shown(recipe) if recipe.id else None,
                build=_shown(build),
                dataset=_shown(dataset) if dataset.id else None,
                eval_dataset=_shown(other) if other.id else None,
            )
            for run_id, model, recipe, build, dataset, other in self.session.execute(query)
        }

    def overdue(self, run_id: str, now: datetime) -> list[RunRecord]:
        """The run, if it is still overdue."""
        return list(self.session.scalars(self.select().where(RunRecord.id == run_id, _overdue(now))))

    def steps(self, run: RunRecord, after: int) -> list[RunStepRecord]:
        """Steps of the run's present lease with numbers above `after`, in order, at most `STEPS_AT_ONCE`."""
        query = (
            select(RunStepRecord)
            .where(RunStepRecord.run_id == run.id, RunStepRecord.fence == run.fence, RunStepRecord.step > after)
            .order_by(RunStepRecord.step)
            .limit(STEPS_AT_ONCE)
        )
        return list(self.session.scalars(query))

    def streamed(self, run_id: str, told: dict[str, Any]) -> dict[str, Any]:
        """The data of an event of steps as a client gets it: the event itself says only which steps there were."""
        if "items" in told:  # written before steps were stored once
            return told
        query = (
            select(RunStepRecord)
            .where(RunStepRecord.run_id == run_id, RunStepRecord.fence == told["fence"])
            .where(RunStepRecord.step.between(told["first"], told["last"]))
            .order_by(RunStepRecord.step)
        )
        return {"items": [{"step": row.step, "loss": row.loss, "ms": row.ms} for row in self.session.scalars(query)]}

    def forget_steps(self, run_id: str) -> None:
        """Delete the steps of a run that is being deleted."""
        self.session.execute(delete(RunStepRecord).where(RunStepRecord.run_id == run_id))


def _ready(now: datetime) -> ColumnElement[bool]:
    """Of a run: it waits for its device, and for nothing else."""
    soon = or_(RunRecord.not_before.is_(None), RunRecord.not_before <= now)
    return (RunRecord.state == RunState.QUEUED) & soon


def _overdue(now: datetime) -> ColumnElement[bool]:
    """Of a run: a moment that ends its present state is in the past."""
    return or_(*(RunRecord.state.in_(states) & (moment < now) for states, moment in _ENDS))


def overdue_runs(session: Session, now: datetime) -> list[RunRecord]:
    """Runs of all workspaces for the sweeper to deal with."""
    return list(session.scalars(select(RunRecord).where(_overdue(now))))
