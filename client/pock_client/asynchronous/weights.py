"""Trained weights as a file of their own, also where they came back as what changed of an artifact's."""

from __future__ import annotations

from pathlib import Path

from pock_client.asynchronous.blobs import Blobs
from pock_client.asynchronous.builds import Builds
from pock_client.asynchronous.files import Artifacts
from pock_client.errors import Damaged, PockClientError
from pock_client.files import Progress
from pock_client.pausing import in_thread
from pock_client.weights.restoring import restore
from pock_client.weights.tensors import MalformedWeights

_BASE = "params.safetensors"
_MIB = 1 << 20


class Weights:
    """Makes whole weights of a delta and of the artifact that it belongs to."""

    def __init__(self, builds: Builds, artifacts: Artifacts, blobs: Blobs) -> None:
        self._builds, self._artifacts, self._blobs = builds, artifacts, blobs

    async def download(self, digest: str, path: Path, progress: Progress | None) -> Path:
        """Write the file as it came."""
        return await self._blobs.download(digest, path, progress)

    async def restore(self, build_id: str, digest: str, path: Path, progress: Progress | None) -> Path:
        """Write all weights to `path`, which is returned. Raises Damaged where the delta is not one of theirs."""
        build = await self._builds.get(build_id)
        if build.artifact_digest is None:
            raise PockClientError(f"the artifact of build {build.name} was dropped; only the delta is left: ask for it")
        base = (await self._artifacts.get(build.artifact_digest)).members[_BASE]
        delta, whole = path.with_name(f"{path.name}.delta"), path.with_name(f"{path.name}.base")
        made = path.with_name(f"{path.name}.made")
        try:
            await self._blobs.download(digest, delta, progress)
            await self._blobs.download(base.sha256, whole, progress)
            limit = 2 * base.size + 64 * _MIB
            await in_thread(restore, whole, base.sha256, delta, made, everything=True, limit=limit)
            await in_thread(made.replace, path)
        except MalformedWeights as error:
            raise Damaged(f"the trained weights cannot be read: {error}") from error
        except OSError as error:
            raise PockClientError(f"{path} cannot be written: {error.strerror}") from error
        finally:
            for part in (delta, whole):
                await in_thread(part.unlink, missing_ok=True)
        return path
