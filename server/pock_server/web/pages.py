"""The dashboard's files. They are built from `web/` and may be absent; the API does not need them."""

import gzip
import mimetypes
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import FileResponse, HTMLResponse, Response

from pock_server.dependencies import ServicesDep
from pock_server.http.problems import Failure, Problem


class _PagePath(PathConvertor):
    """Every address but those of the API, whose own errors say what is wrong with a request for them."""

    regex = "(?!v1(?:/|$)).*"


register_url_convertor("page", _PagePath())
_TEXTS = ("text/html", "text/css", "text/javascript", "application/javascript", "application/json", "image/svg+xml")
_MIN_PACKED, _MAX_PACKED = 1024, 4 << 20
router = APIRouter(include_in_schema=False)

_MISSING = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>PockEngine</title>
<h1>PockEngine</h1>
<p>The service runs, but its dashboard is not built. Build it with Node.js 20.19 or newer:</p>
<pre>make web</pre>
<p>or <code>npm ci &amp;&amp; npm run build</code> in the folder <code>web</code>. The API is described at
<a href="/openapi.json">/openapi.json</a>.</p>
"""


@router.get("/{path:page}")
def page(path: str, request: Request, services: ServicesDep) -> Response:
    """A built file, or the dashboard itself for its own addresses."""
    folder = services.settings.web_dist.resolve()
    index = folder / "index.html"
    if not index.is_file():
        return HTMLResponse(_MISSING, status_code=200 if path == "" else 404)
    found = _inside(folder, path)
    if found is not None:
        hashed = path.startswith("assets/")
        return _file(request, found, {"Cache-Control": f"public, max-age={31536000 if hashed else 0}"})
    if "." in path.rsplit("/", 1)[-1]:
        raise Problem(Failure.NOT_FOUND, "The dashboard has no such file.")
    return _file(request, index, {"Cache-Control": "no-cache"})


def _file(request: Request, path: Path, headers: dict[str, str]) -> Response:
    """The file; compressed, but only once for all, if it is a text that the client takes so."""
    kind = mimetypes.guess_type(path.name)[0] or ""
    status = path.stat()
    packable = kind in _TEXTS and _MIN_PACKED <= status.st_size <= _MAX_PACKED
    if not packable or "gzip" not in request.headers.get("Accept-Encoding", ""):
        return FileResponse(path, headers=headers)
    packed = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding", **headers}
    return Response(_packed(path, status.st_mtime_ns, status.st_size), media_type=kind, headers=packed)


@lru_cache(maxsize=64)
def _packed(path: Path, _changed_at: int, _size: int) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


def _inside(folder: Path, path: str) -> Path | None:
    """The file at `path`, if it lies inside of the folder."""
    try:
        found = (folder / path).resolve()
        return found if found.is_relative_to(folder) and found.is_file() else None
    except (OSError, ValueError):  # no path of this system: too long, a NUL, a loop of links
        return None
