"""Queries on recipes."""

from sqlalchemy import func, select

from pock_server.builds.tables import BuildRecord
from pock_server.names.repository import VersionedRepository
from pock_server.names.tables import Kind
from pock_server.recipes.tables import RecipeRecord


class Recipes(VersionedRepository[RecipeRecord]):
    """The recipes of one workspace."""

    row_class = RecipeRecord
    noun = "recipe"
    kind = Kind.RECIPE
    digest = "digest"

    def count_builds(self, recipe_id: str) -> int:
        """Builds and searches that were asked for by this recipe, in whatever state."""
        query = select(func.count()).select_from(BuildRecord).where(BuildRecord.recipe_id == recipe_id)
        return self.session.scalar(query) or 0
