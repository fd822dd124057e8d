"""`pock cache`: what the cache folder holds, and how to make it smaller."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from ..artifact.artifact import unpacked
from ..codegen.folder_cache import default_folder, drop_abandoned, limit_bytes
from ..codegen.object_cache import ObjectCache
from ..errors import PockError, nearest
from ..tune import LocalStore
from .console import pairs, size

ACTIONS = ("show", "clear", "prune")
_DAY = 86400.0


def manage_cache(action: str, keep_days: float | None, *, as_json: bool) -> None:
    """Do as `action` says with the cache folder. Raises PockError."""
    if action not in ACTIONS:
        raise PockError(f"'pock cache' cannot '{action}'{nearest(action, ACTIONS)}")
    if action == "prune" and keep_days is None:
        raise PockError("say how long to keep what was not used: --keep-days 30")
    if action != "prune" and keep_days is not None:
        raise PockError("--keep-days goes with 'pock cache prune'")
    folder = default_folder()
    if action == "show":
        _show(folder, as_json)
        return
    before = float("inf") if keep_days is None else time.time() - keep_days * _DAY
    store = LocalStore(folder)
    kernels, artifacts = ObjectCache(folder).prune(before), unpacked(folder).prune(before)
    drop_abandoned(folder)
    freed = kernels.nbytes + artifacts.nbytes
    tunings = len(store.list()) if action == "clear" else store.prune(before)
    if action == "clear":
        freed += store.nbytes
        store.clear()
    if as_json:
        removed = {"kernels": kernels.count, "artifacts": artifacts.count, "tunings": tunings}
        print(json.dumps({"folder": str(folder), "removed": removed, "freed_bytes": freed}))
    else:
        print(
            f"removed {kernels.count} compiled kernels, {artifacts.count} unpacked artifacts and {tunings} tuning "
            f"results ({size(freed)}) from {folder}"
        )


def _show(folder: Path, as_json: bool) -> None:
    content = contents(folder)
    if as_json:
        print(json.dumps(content))
        return
    tunings, limit = content["tunings"], size(content["limit_bytes"])
    rows = {
        "folder": content["folder"],
        "compiled kernels": _usage(content["kernels"], f", at most {limit}"),
        "unpacked artifacts": _usage(content["artifacts"], f", at most {limit}"),
        "tuning results": _usage(tunings),
    }
    for row in tunings["by_family"]:
        measured = f"{row['count']}, of which {row['improved']} better than the model's choice"
        rows[f"  {row['family']} on {row['cpu']}"] = measured
    Console().print(pairs(rows))


def _usage(part: Mapping[str, Any], more: str = "") -> str:
    return f"{part['count']} ({size(part['bytes'])}{more})"


def contents(folder: Path) -> dict[str, Any]:
    """What `pock cache show --json` prints."""
    kernels, artifacts = ObjectCache(folder).usage(), unpacked(folder).usage()
    store = LocalStore(folder)
    entries = store.list() if store.path.exists() else []
    families: dict[tuple[str, str], list[bool]] = {}
    for entry in entries:
        result, device = entry.result, entry.inputs["device"]
        improved = result.ms is not None and result.model_ms is not None and result.ms < result.model_ms
        families.setdefault((entry.inputs["family"], device), []).append(improved)
    rows = [
        {"family": family, "device": device, "cpu": _cpu(device), "count": len(better), "improved": sum(better)}
        for (family, device), better in sorted(families.items())
    ]
    return {
        "folder": str(folder),
        "limit_bytes": limit_bytes(),
        "kernels": {"count": kernels.count, "bytes": kernels.nbytes},
        "artifacts": {"count": artifacts.count, "bytes": artifacts.nbytes},
        "tunings": {"count": len(entries), "bytes": store.nbytes, "by_family": rows},
    }


def _cpu(device: str) -> str:
    """The CPU's name of `triple cpu+feature-feature`."""
    name = device.partition(" ")[2]
    return name[: min((name.find(sign) for sign in "+-" if sign in name), default=len(name))]
