"""Bodies of the recipe calls."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints

from pock_server.http.fields import Digest, Id, Name
from pock_server.http.pages import PageOut
from pock_server.names.schemas import Tags, Version
from pock_server.recipes.text import MAX_CHARACTERS

RecipeText = Annotated[str, StringConstraints(max_length=MAX_CHARACTERS)]


class RecipeIn(BaseModel):
    """A recipe to keep."""

    name: Name
    text: RecipeText = Field(description="YAML.")


class RecipeBrief(BaseModel):
    """A recipe as lists show it."""

    id: Id
    name: str
    version: Version
    tags: Tags
    digest: Digest = Field(description="SHA-256 of the text.")
    model_id: Id | None = Field(description="The model that a search found it for; null if somebody wrote it.")
    search_id: Id | None = Field(description="The search that found it, which may be deleted since.")
    created_at: datetime


class RecipeOut(RecipeBrief):
    """A recipe."""

    text: str = Field(description="As it was written.")
    recipe: dict[str, Any] = Field(description="What the text says.")


class RecipePage(PageOut[RecipeBrief]):
    """Recipes, newest first."""
