"""Queries on tunings, entries and measurements."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from pock_server.db.repository import Repository
from pock_server.devices.states import DeviceStatus
from pock_server.devices.tables import DeviceRecord
from pock_server.runs.tables import RunRecord
from pock_server.tuning.lifecycle import OPEN_TUNINGS
from pock_server.tuning.schemas import Standing
from pock_server.tuning.tables import DistrustRecord, EntryRecord, MeasurementRecord, TuningRecord

MOST_KNOWN = 20_000
"""Entries that a build is told; the newest count."""


class Tunings(Repository[TuningRecord]):
    """The tunings of one workspace."""

    row_class = TuningRecord
    noun = "tuning"

    def open_of(self, target: str) -> list[TuningRecord]:
        """Those for a target that are not over."""
        query = self.select().where(TuningRecord.target == target, TuningRecord.state.in_(OPEN_TUNINGS))
        return list(self.session.scalars(query))

    def of_build(self, build_id: str) -> TuningRecord | None:
        """The one that a build began."""
        return self.session.scalars(self.select().where(TuningRecord.build_id == build_id)).first()


class Entries(Repository[EntryRecord]):
    """What is known in one workspace."""

    row_class = EntryRecord
    noun = "tuning entry"

    def known(self, target: str) -> list[EntryRecord]:
        """The decided entries of a target, newest first."""
        mine = self.select().where(EntryRecord.target == target, EntryRecord.decided_at.is_not(None))
        return list(self.session.scalars(mine.order_by(EntryRecord.decided_at.desc()).limit(MOST_KNOWN)))

    def revision(self, target: str) -> str:
        """Changes whenever a target's knowledge does."""
        query = select(func.count(), func.max(EntryRecord.decided_at)).where(
            EntryRecord.workspace_id == self.workspace_id,
            EntryRecord.target == target,
            EntryRecord.decided_at.is_not(None),
        )
        count, last = self.session.execute(query).one()
        return f"{count} {last.isoformat() if last else ''}"

    def by_keys(self, target: str, keys: Iterable[str]) -> dict[str, EntryRecord]:
        """The target's entries of these keys."""
        query = self.select().where(EntryRecord.target == target, EntryRecord.key.in_(list(keys)))
        return {row.key: row for row in self.session.scalars(query)}


class Measurements(Repository[MeasurementRecord]):
    """What devices of one workspace measured."""

    row_class = MeasurementRecord
    noun = "measurement"

    def of_pack(self, pack_id: str) -> list[MeasurementRecord]:
        """All of a pack, oldest first."""
        query = self.select().where(MeasurementRecord.pack_id == pack_id)
        return list(self.session.scalars(query.order_by(MeasurementRecord.created_at, MeasurementRecord.id)))

    def of_entry(self, entry: EntryRecord) -> list[MeasurementRecord]:
        """Those that may decide an entry: of its present candidates, by devices that are believed."""
        believed = select(DeviceRecord.id).where(
            DeviceRecord.workspace_id == self.workspace_id, DeviceRecord.status == DeviceStatus.ACTIVE
        )
        query = self.select().where(
            MeasurementRecord.target == entry.target,
            MeasurementRecord.key == entry.key,
            MeasurementRecord.pack_id == entry.pack_id,
            MeasurementRecord.standing != Standing.DROPPED,
            MeasurementRecord.device_id.in_(believed),
            MeasurementRecord.device_id.not_in(select(DistrustRecord.id)),
        )
        return list(self.session.scalars(query.order_by(MeasurementRecord.created_at, MeasurementRecord.id)))

    def drop_device(self, device_id: str) -> list[tuple[str, str]]:
        """Forget what a device measured; (target, key) of each."""
        mine = (MeasurementRecord.workspace_id == self.workspace_id, MeasurementRecord.device_id == device_id)
        gone = delete(MeasurementRecord).where(*mine).returning(MeasurementRecord.target, MeasurementRecord.key)
        return sorted({(target, key) for target, key in self.session.execute(gone)})


class Distrusted(Repository[DistrustRecord]):
    """The devices of one workspace that are not believed."""

    row_class = DistrustRecord
    noun = "distrusted device"

    def find_all(self, ids: Iterable[str]) -> list[DistrustRecord]:
        """Those of these devices that are not believed."""
        return list(self.session.scalars(self.select().where(DistrustRecord.id.in_(list(ids)))))

    def names(self, rows: Iterable[DistrustRecord]) -> dict[str, str]:
        """What these devices are called."""
        mine = (DeviceRecord.workspace_id == self.workspace_id, DeviceRecord.id.in_([row.id for row in rows]))
        query = select(DeviceRecord.id, DeviceRecord.name).where(*mine)
        return {row.id: row.name for row in self.session.execute(query)}


def open_tunings(session: Session, _now: datetime) -> list[TuningRecord]:
    """Tunings of all workspaces that are not over, for the duty."""
    return list(session.scalars(select(TuningRecord).where(TuningRecord.state.in_(OPEN_TUNINGS))))


def pack_runs(session: Session, tuning: TuningRecord) -> list[RunRecord]:
    """The runs of a tuning's present pack, oldest first."""
    mine = (RunRecord.workspace_id == tuning.workspace_id, RunRecord.part_of == tuning.id)
    query = select(RunRecord).where(*mine, RunRecord.build_id == tuning.pack_build_id)
    return list(session.scalars(query.order_by(RunRecord.created_at, RunRecord.id)))
