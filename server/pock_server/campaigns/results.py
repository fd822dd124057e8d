"""The results of a campaign as one table, and as text for spreadsheets."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence

from sqlalchemy.orm import Session, load_only

from pock_server.builds.repository import Builds
from pock_server.builds.tables import BuildRecord
from pock_server.campaigns.measuring import Measure, spread
from pock_server.campaigns.schemas import CampaignResult, CampaignResults, CellCounts, CellState, ResultsBy, Spread
from pock_server.campaigns.tables import CampaignCellRecord
from pock_server.names.schemas import VersionOut
from pock_server.recipes.repository import Recipes
from pock_server.runs.failures import class_of

_COUNTED = ("total", *CellState)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How texts begin that spreadsheets would compute; names come from devices and other people."""


def results(session: Session, workspace_id: str, cells: Sequence[CampaignCellRecord], by: ResultsBy) -> CampaignResults:
    """One row a build and target, or a build and device, in the order of the cells."""
    groups: dict[tuple[str, str], list[CampaignCellRecord]] = {}
    for cell in cells:
        key = cell.target if by is ResultsBy.TARGET else cell.device_id
        groups.setdefault((cell.build_id, key), []).append(cell)
    names, schemes = _names(session, workspace_id, {cell.build_id for cell in cells})
    return CampaignResults(by=by, rows=[_row(group, names, schemes, by) for group in groups.values()])


def _names(session: Session, workspace_id: str, build_ids: set[str]) -> tuple[dict[str, str], dict[str, str]]:
    """What builds and their recipes are called, by the builds' ids; recipes may have no name."""
    builds = Builds(session, workspace_id)
    query = builds.select().where(BuildRecord.id.in_(build_ids)).options(load_only(BuildRecord.recipe_id))
    recipe_ids = {build.id: build.recipe_id for build in session.scalars(query)}
    recipes = Recipes(session, workspace_id).versions(recipe_ids.values())
    schemes = {build_id: _text(recipes[one]) for build_id, one in recipe_ids.items() if one in recipes}
    return {one.id: _text(one) for one in builds.versions(build_ids).values()}, schemes


def _text(version: VersionOut) -> str:
    return f"{version.name}:v{version.version}"


def _row(
    cells: Sequence[CampaignCellRecord], names: dict[str, str], schemes: dict[str, str], by: ResultsBy
) -> CampaignResult:
    first, measured = cells[0], [cell.measured for cell in cells]
    states = Counter(cell.state for cell in cells)
    failed = [cell.failure or {} for cell in cells if cell.state == CellState.FAILED]
    return CampaignResult(
        build_id=first.build_id,
        build=names.get(first.build_id, first.build_id),
        recipe=schemes.get(first.build_id),
        target=first.target,
        device_id=first.device_id if by is ResultsBy.DEVICE else None,
        device_name=first.device_name if by is ResultsBy.DEVICE else None,
        cells=CellCounts(total=len(cells), **{state: states[state] for state in CellState}),
        failures=dict(sorted(Counter(str(class_of(one.get("code", 0))) for one in failed).items())),
        **{str(name): spread(measured, name) for name in Measure},
    )


def as_csv(found: CampaignResults) -> str:
    """The same as lines of values with a line of titles first."""
    out = io.StringIO()
    writer = csv.writer(out)
    spreads = [f"{name}_{part}" for name in Measure for part in ("n", "median", "low", "high")]
    device = ("device_id", "device_name") if found.by is ResultsBy.DEVICE else ()
    writer.writerow(["build_id", "build", "target", *device, *_COUNTED, "failures", *spreads])
    for row in found.rows:
        names = [row.build_id, row.build, row.target, *(getattr(row, name) or "" for name in device)]
        counts = [getattr(row.cells, name) for name in _COUNTED]
        failures = " ".join(f"{kind}={count}" for kind, count in row.failures.items())
        writer.writerow([*map(_harmless, names), *counts, failures, *_numbers(getattr(row, name) for name in Measure)])
    return out.getvalue()


def _numbers(spreads: Iterable[Spread | None]) -> list[object]:
    return [
        value for one in spreads for value in ((one.n, one.median, one.low, one.high) if one else (0, None, None, None))
    ]


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
