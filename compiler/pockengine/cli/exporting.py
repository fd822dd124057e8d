"""`pock export`: a fine-tuned model out of an artifact."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ..artifact import Artifact


@dataclass(frozen=True)
class ExportRequest:
    """The options of `pock export`."""

    artifact: Path
    output: Path
    format: str | None
    weights: Path | None
    merge: bool
    adapters: bool


def export_model(request: ExportRequest, *, as_json: bool) -> None:
    """Write the files and say which; what cannot work is refused before anything is written."""
    artifact = Artifact.open(request.artifact)
    files = artifact.export(
        request.output, request.format, weights=request.weights, merge=request.merge, adapters=request.adapters
    )
    if as_json:
        print(json.dumps({"files": [str(file) for file in files], "bytes": sum(f.stat().st_size for f in files)}))
    else:
        print("\n".join(str(file) for file in files))
