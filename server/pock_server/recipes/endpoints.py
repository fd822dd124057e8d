"""Recipes over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from pock_server.dependencies import ModelWriter, Reader, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.names.schemas import NameGlob, Ref, Tag
from pock_server.names.service import tag, untag
from pock_server.quotas.service import Quota, check
from pock_server.recipes import service
from pock_server.recipes.repository import Recipes
from pock_server.recipes.schemas import RecipeIn, RecipeOut, RecipePage
from pock_server.recipes.tables import RecipeRecord
from pock_server.recipes.text import read_recipe

router = APIRouter(prefix="/recipes", tags=["recipes"], responses=PROBLEMS)


@router.post(
    "",
    status_code=201,
    responses={200: {"model": RecipeOut, "description": "The name has a version with the same text."}},
)
def create_recipe(
    body: RecipeIn, response: Response, caller: ModelWriter, services: ServicesDep, once: Once
) -> RecipeOut:
    """Keep a recipe as the next version of its name."""
    content = read_recipe(body.text)
    with services.database.write(caller.actor) as unit:
        pushed = service.create_recipe(unit, caller.workspace_id, body, content, services.clock.now())
        if pushed.created:
            check(unit, services.settings, caller.workspace_id, services.clock.now(), Quota.RECIPES)
        response.status_code = 201 if pushed.created else 200
        shown = service.show(Recipes(unit.session, caller.workspace_id), pushed.row)
        return once(unit, shown, response.status_code)


@router.get("")
def list_recipes(
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    ref: Ref = None,
    name: NameGlob = None,
    model_id: Annotated[Id | None, Query(description="Those that were found for this model.")] = None,
) -> RecipePage:
    """List recipes, without their texts."""
    with services.database.read() as session:
        recipes = Recipes(session, caller.workspace_id)
        filters = recipes.asked(ref, name)
        if model_id is not None:
            filters.append(RecipeRecord.model_id == model_id)
        found = recipes.page(page, *filters)
        return RecipePage(items=service.show_briefly(recipes, found.rows), next_cursor=found.next_cursor)


@router.get("/{recipe_id}")
def get_recipe(recipe_id: Id, caller: Reader, services: ServicesDep) -> RecipeOut:
    """One recipe."""
    with services.database.read() as session:
        recipes = Recipes(session, caller.workspace_id)
        return service.show(recipes, recipes.require(recipe_id))


@router.put("/{recipe_id}/tags/{tag_name}")
def tag_recipe(recipe_id: Id, tag_name: Tag, caller: ModelWriter, services: ServicesDep) -> RecipeOut:
    """Have a tag name this version of the recipe, whichever it named before."""
    with services.database.write(caller.actor) as unit:
        recipes = Recipes(unit.session, caller.workspace_id)
        return service.show(recipes, tag(unit, recipes, recipe_id, tag_name, services.clock.now()))


@router.delete("/{recipe_id}/tags/{tag_name}", status_code=204)
def untag_recipe(recipe_id: Id, tag_name: Tag, caller: ModelWriter, services: ServicesDep) -> None:
    """Take a tag away from this version of the recipe."""
    with services.database.write(caller.actor) as unit:
        untag(unit, Recipes(unit.session, caller.workspace_id), recipe_id, tag_name, services.clock.now())


@router.delete("/{recipe_id}", status_code=204)
def delete_recipe(recipe_id: Id, caller: ModelWriter, services: ServicesDep) -> None:
    """Forget a recipe without builds and searches."""
    with services.database.write(caller.actor) as unit:
        service.delete_recipe(unit, caller.workspace_id, recipe_id, services.clock.now())
