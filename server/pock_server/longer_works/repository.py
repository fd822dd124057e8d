"""Finds longer works of all kinds by their ids."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import literal, select, union_all
from sqlalchemy.orm import InstrumentedAttribute, Session

from pock_server.benchmarks.tables import BenchmarkRecord
from pock_server.campaigns.tables import CampaignRecord
from pock_server.federations.tables import FederationRecord
from pock_server.longer_works.schemas import LongerWork, LongerWorkKind
from pock_server.tuning.tables import TuningRecord

_NAMES: dict[LongerWorkKind, tuple[Any, InstrumentedAttribute[str]]] = {
    LongerWorkKind.CAMPAIGN: (CampaignRecord, CampaignRecord.name),
    LongerWorkKind.FEDERATION: (FederationRecord, FederationRecord.name),
    LongerWorkKind.TUNING: (TuningRecord, TuningRecord.build_name),
    LongerWorkKind.BENCHMARK: (BenchmarkRecord, BenchmarkRecord.build_name),
}


def find_longer_works(session: Session, workspace_id: str, ids: Collection[str]) -> dict[str, LongerWork]:
    """Those of these works that the workspace still has, by their ids: one query, none where nothing is asked for."""
    if not ids:
        return {}
    queries = (
        select(literal(str(kind)), row.id, name).where(row.workspace_id == workspace_id, row.id.in_(ids))
        for kind, (row, name) in _NAMES.items()
    )
    found = session.execute(union_all(*queries))
    return {row_id: LongerWork(kind=LongerWorkKind(kind), id=row_id, name=name) for kind, row_id, name in found}
