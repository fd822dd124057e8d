"""Queries on searches."""

from collections.abc import Iterable

from sqlalchemy import or_, select

from pock_server.builds.tables import BuildRecord
from pock_server.db.repository import Repository
from pock_server.searches.tables import SearchRecord


class Searches(Repository[SearchRecord]):
    """The searches of one workspace."""

    row_class = SearchRecord
    noun = "search"

    def builds(self, rows: Iterable[SearchRecord]) -> dict[str, BuildRecord]:
        """How each search is done, by the id of both."""
        mine = (BuildRecord.workspace_id == self.workspace_id, BuildRecord.id.in_({row.id for row in rows}))
        return {build.id: build for build in self.session.scalars(select(BuildRecord).where(*mine))}

    def count_of_model(self, model_id: str) -> int:
        """Searches of the model, in whatever state."""
        return self.count(SearchRecord.model_id == model_id)

    def count_of_dataset(self, dataset_id: str) -> int:
        """Searches with the dataset, in whatever state."""
        either = or_(SearchRecord.dataset_id == dataset_id, SearchRecord.eval_dataset_id == dataset_id)
        return self.count(either)
