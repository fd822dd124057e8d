"""Keeps recipes. What they ask for is checked by the build worker, which has the compiler."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pock_server.audit.service import Action, gone, made, record
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.http.problems import Failure, Problem
from pock_server.names.service import Pushed
from pock_server.recipes.repository import Recipes
from pock_server.recipes.schemas import RecipeBrief, RecipeIn, RecipeOut
from pock_server.recipes.tables import RecipeRecord


@dataclass(frozen=True)
class Origin:
    """Where a recipe comes from that nobody wrote: found for a model, by a search."""

    model_id: str
    search_id: str


def create_recipe(
    unit: Unit,
    workspace_id: str,
    order: RecipeIn,
    content: dict[str, Any],
    now: datetime,
    origin: Origin | None = None,
) -> Pushed[RecipeRecord]:
    """Keep a recipe, whose text says `content`, as the next version of its name, or find the version that has the same
    text."""
    recipes = Recipes(unit.session, workspace_id)
    digest = hashlib.sha256(order.text.encode()).hexdigest()
    recipes.hold(order.name)
    same = recipes.newest(order.name, RecipeRecord.digest == digest)
    if same is not None:
        return Pushed(same, created=False)
    row = RecipeRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        name=order.name,
        version=recipes.next_version(order.name),
        digest=digest,
        text=order.text,
        content=content,
        model_id=origin.model_id if origin else None,
        search_id=origin.search_id if origin else None,
    )
    recipes.add(row)
    record(unit, Action.RECIPE_CREATE, row, row.name, now, made(version=row.version, digest=row.digest))
    return Pushed(row, created=True)


def delete_recipe(unit: Unit, workspace_id: str, recipe_id: str, now: datetime) -> None:
    """Forget a recipe that no build or search was asked for by; a 409 `Problem` if one was."""
    recipes = Recipes(unit.session, workspace_id)
    row = recipes.require(recipe_id, lock=True)
    builds = recipes.count_builds(row.id)
    if builds:
        raise Problem(Failure.STATE_CONFLICT, f"Recipe {row.name} has {builds} builds or searches; delete them first.")
    record(unit, Action.RECIPE_DELETE, row, row.name, now, gone(version=row.version, digest=row.digest))
    recipes.forget_tags(row)
    unit.session.delete(row)


def show(recipes: Recipes, row: RecipeRecord) -> RecipeOut:
    """The recipe as the API shows it."""
    (brief,) = show_briefly(recipes, [row])
    return RecipeOut(**brief.model_dump(), text=row.text, recipe=row.content)


def show_briefly(recipes: Recipes, rows: Sequence[RecipeRecord]) -> list[RecipeBrief]:
    """Recipes as lists show them."""
    tags = recipes.tags_of(rows)
    return [
        RecipeBrief(
            id=row.id,
            name=row.name,
            version=row.version,
            tags=tags[row.id],
            digest=row.digest,
            model_id=row.model_id,
            search_id=row.search_id,
            created_at=row.created_at,
        )
        for row in rows
    ]
