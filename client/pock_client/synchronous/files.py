# Generated from pock_client/asynchronous by `python -m client.generate`.
"""Models, datasets and recipes: files with names and versions; and artifacts, which builds make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import UNSET, UnsetType

from pock_client.calls import Call, part, sending
from pock_client.errors import PockClientError
from pock_client.files import Progress
from pock_client.onnx_files import external_files
from pock_client.pausing import Stream, directly
from pock_client.references import Reference, local_name, recipe_text
from pock_client.schema import (
    Artifact,
    Build,
    Check,
    Dataset,
    DatasetIn,
    DatasetPage,
    Estimate,
    EstimateIn,
    Model,
    ModelIn,
    ModelPage,
    Recipe,
    RecipeBrief,
    RecipeIn,
    RecipePage,
)
from pock_client.synchronous.blobs import Blobs
from pock_client.synchronous.named import Versioned
from pock_client.synchronous.transport import Page, Transport


class Models(Versioned[Model]):
    """`client.models`."""

    words = "model"
    path = "/models"
    kind = Model
    page = ModelPage

    def __init__(self, transport: Transport, blobs: Blobs) -> None:
        super().__init__(transport)
        self._blobs = blobs

    def push(self, path: str | Path, name: str | None = None, progress: Progress | None = None) -> Model:
        """Store an ONNX file, and the files of external data that it names, as a model; its name is the file's unless
        another is given. `progress` is called with bytes done and bytes in all, file by file."""
        path = Path(path)
        others = directly(external_files, path)
        external = {within: self._blobs.upload(file, progress) for within, file in others.items()}
        digest = self._blobs.upload(path, progress)
        body = ModelIn(name=name or path.stem, digest=digest, external=external or UNSET)
        return self._transport.json(sending("POST", self.path, body, once=True), Model)

    def check(self, model: Reference, target: str = "host", batch: int | None = None) -> Check:
        """What is in a model, whether it can be trained, and what training all of it, its head or its biases takes."""
        ident = self.id_of(model)
        call = Call("GET", f"{self.path}/{part(ident)}/check", query={"target": target, "batch": batch})
        return self._transport.json(call, Check)

    def estimate(
        self,
        model: Reference,
        recipe: str | dict[str, Any] | Path,
        target: str = "host",
        threads: int | None = None,
        memory_bytes: int | None = None,
    ) -> Estimate:
        """What training by a recipe would take on a target; nothing is built. `recipe` is YAML text, an object, or the
        path of a file. Raises ServiceError with failure code 3003 for a recipe that is wrong."""
        body = EstimateIn(
            recipe=recipe_text(recipe),
            target=target,
            threads=threads or UNSET,
            memory_bytes=memory_bytes or UNSET,
        )
        ident = self.id_of(model)
        return self._transport.json(sending("POST", f"{self.path}/{part(ident)}/estimate", body), Estimate)


class Datasets(Versioned[Dataset]):
    """`client.datasets`."""

    words = "dataset"
    path = "/datasets"
    kind = Dataset
    page = DatasetPage

    def __init__(self, transport: Transport, blobs: Blobs) -> None:
        super().__init__(transport)
        self._blobs = blobs

    def push(self, path: str | Path, name: str | None = None, progress: Progress | None = None) -> Dataset:
        """Store a safetensors file as a dataset; its name is the file's unless another is given."""
        path = Path(path)
        body = DatasetIn(name=name or path.stem, digest=self._blobs.upload(path, progress))
        return self._transport.json(sending("POST", self.path, body, once=True), Dataset)

    def meant(self, reference: Reference | None) -> tuple[str | UnsetType, str | UnsetType]:
        """The id of a dataset, or after "local:" the name of what each device keeps itself."""
        if reference is None:
            return UNSET, UNSET
        name = local_name(reference)
        return (self.id_of(reference), UNSET) if name is None else (UNSET, name)


class Recipes(Versioned[Recipe]):
    """`client.recipes`."""

    words = "recipe"
    path = "/recipes"
    kind = Recipe
    page: type[Page[Any]] = RecipePage

    def list(self, **filters: str | None) -> Stream[RecipeBrief]:  # type: ignore[override]
        """All of them, newest first, without their texts, which `get` has."""
        return self._transport.pages(self.path, RecipePage, filters)

    def push(self, recipe: str | Path, name: str | None = None) -> Recipe:
        """Store a recipe, YAML text or the path of a file, as the next version of a name; that is the file's unless
        another is given. Raises ServiceError with status 422 for a text that is no recipe."""
        if name is None and not isinstance(recipe, Path):
            raise PockClientError("a recipe that is given as text needs a name")
        text = directly(recipe_text, recipe)
        assert isinstance(text, str)
        body = RecipeIn(name=name or Path(recipe).stem, text=text)
        return self._transport.json(sending("POST", self.path, body, once=True), Recipe)

    def find(self, reference: str) -> Recipe:
        """What a reference means, as of a model, with its text."""
        return self.get((super().find(reference)).id)


class Artifacts:
    """`client.artifacts`."""

    def __init__(self, transport: Transport, blobs: Blobs) -> None:
        self._transport = transport
        self._blobs = blobs

    def get(self, digest: str) -> Artifact:
        """The manifest of an artifact, with its digest, size and build."""
        return self._transport.json(Call("GET", f"/artifacts/{part(digest)}"), Artifact)

    def download(self, artifact: str | Build, path: str | Path, progress: Progress | None = None) -> Path:
        """Write an artifact, given by its digest or its build, to `path`, which is returned."""
        digest = artifact if isinstance(artifact, str) else artifact.artifact_digest
        if digest is None:
            raise PockClientError("this build has no artifact: it has not succeeded")
        return self._blobs.download(digest, path, progress)
