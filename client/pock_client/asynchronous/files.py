"""Models and datasets: files with names, and artifacts, which builds make."""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET

from pock_client.asynchronous.blobs import Blobs
from pock_client.asynchronous.named import Named
from pock_client.asynchronous.transport import Transport
from pock_client.calls import Call, part, sending
from pock_client.errors import PockClientError
from pock_client.files import Progress
from pock_client.onnx_files import external_files
from pock_client.pausing import in_thread
from pock_client.schema import Artifact, Build, Dataset, DatasetIn, DatasetPage, Model, ModelIn, ModelPage


class Models(Named[Model]):
    """`client.models`."""

    words = "model"
    path = "/models"
    kind = Model
    page = ModelPage

    def __init__(self, transport: Transport, blobs: Blobs) -> None:
        super().__init__(transport)
        self._blobs = blobs

    async def push(self, path: str | Path, name: str | None = None, progress: Progress | None = None) -> Model:
        """Store an ONNX file, and the files of external data that it names, as a model; its name is the file's unless
        another is given. `progress` is called with bytes done and bytes in all, file by file."""
        path = Path(path)
        others = await in_thread(external_files, path)
        external = {within: await self._blobs.upload(file, progress) for within, file in others.items()}
        digest = await self._blobs.upload(path, progress)
        body = ModelIn(name=name or path.stem, digest=digest, external=external or UNSET)
        return await self._transport.json(sending("POST", self.path, body, once=True), Model)


class Datasets(Named[Dataset]):
    """`client.datasets`."""

    words = "dataset"
    path = "/datasets"
    kind = Dataset
    page = DatasetPage

    def __init__(self, transport: Transport, blobs: Blobs) -> None:
        super().__init__(transport)
        self._blobs = blobs

    async def push(self, path: str | Path, name: str | None = None, progress: Progress | None = None) -> Dataset:
        """Store a safetensors file as a dataset; its name is the file's unless another is given."""
        path = Path(path)
        body = DatasetIn(name=name or path.stem, digest=await self._blobs.upload(path, progress))
        return await self._transport.json(sending("POST", self.path, body, once=True), Dataset)


class Artifacts:
    """`client.artifacts`."""

    def __init__(self, transport: Transport, blobs: Blobs) -> None:
        self._transport = transport
        self._blobs = blobs

    async def get(self, digest: str) -> Artifact:
        """The manifest of an artifact, with its digest, size and build."""
        return await self._transport.json(Call("GET", f"/artifacts/{part(digest)}"), Artifact)

    async def download(self, artifact: str | Build, path: str | Path, progress: Progress | None = None) -> Path:
        """Write an artifact, given by its digest or its build, to `path`, which is returned."""
        digest = artifact if isinstance(artifact, str) else artifact.artifact_digest
        if digest is None:
            raise PockClientError("this build has no artifact: it has not succeeded")
        return await self._blobs.download(digest, path, progress)
