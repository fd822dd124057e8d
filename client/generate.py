"""Writes the parts of pock_client that follow from something else, or says which of them are stale.

    python -m client.generate            in the repository's root
    python -m client.generate --check    exit status 1, and their names, if any would change

`pock_client/schema.py` is made from `web/openapi.json`, `pock_client/synchronous/` from `pock_client/asynchronous/`.
`first_fields.json` has, for each component of answers, the fields with which it was published; new ones are added.
A field that came later is one that an older service does not send: its type lets it be missing.
What the agent knows of weights (`pock_agent/weights/`) is copied into the client and the service.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import unasync  # type: ignore[import-untyped]
from datamodel_code_generator import InputFileType, generate
from datamodel_code_generator.enums import DataModelType
from datamodel_code_generator.format import DatetimeClassType, Formatter, PythonVersion

ROOT = Path(__file__).parents[1]
PACKAGE = Path("client/pock_client")
SCHEMA = PACKAGE / "schema.py"
FIRST = Path("client/first_fields.json")
HEADER = '"""Types of the interface. Generated from web/openapi.json by `python -m client.generate`."""'
MADE = "# Generated from pock_client/asynchronous by `python -m client.generate`.\n"

WEIGHTS = Path("device_agent/pock_agent/weights")
COPIES = (PACKAGE / "weights", Path("server/pock_server/weights"))
COPIED = "# Copied from device_agent/pock_agent/weights by `python -m client.generate`.\n"

NOT_OURS = re.compile(r"^/(?!v1/)|^/v1/(agent/|enroll$|session$|trust)")
"""Calls of devices, of the page and of the service's operators."""

NAMES = {
    "pock_server__artifacts__schemas__MemberOut": "ArtifactMember",
    "pock_server__members__schemas__MemberOut": "Member",
    "TokenCreated": "EnrolmentToken",
    "TokenIn": "EnrolmentTokenIn",
    "RunReport": "Reports",
    "Rule": "Aggregation",
}
"""Names of components that `Out` at the end does not explain."""

REQUEST = re.compile("In$|(?<!Audit)Change$")
"""Names of what a client sends; everything else is in answers."""

SHARED = {
    "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$": "Id",
    "^[0-9a-f]{64}$": "Digest",
}
"""{pattern: name of the type of all texts that have it}."""

REPLACED = {
    "AsyncClient": "Client",
    "AsyncBaseTransport": "BaseTransport",
    "AsyncHTTPTransport": "HTTPTransport",
    "aclosing": "closing",
    "aclose": "close",
    "aiter_raw": "iter_raw",
    "asynchronous": "synchronous",
    "AsyncStream": "Stream",
    "AsyncQuestion": "Question",
    "in_thread": "directly",
    "sleep_async": "sleep",
}
"""{name in asynchronous/: name in synchronous/}; what else differs, unasync knows."""


def document() -> dict[str, Any]:
    """What of the OpenAPI document a client needs, with names and defaults as a client's types have them."""
    found: dict[str, Any] = json.loads((ROOT / "web" / "openapi.json").read_text())
    every: dict[str, Any] = found["components"]["schemas"]
    calls = {path: item for path, item in found["paths"].items() if not NOT_OURS.search(path)}
    wanted = _reached(calls, every) | {"ProblemOut", *_reached(every["ProblemOut"], every)}
    names = {name: NAMES.get(name, name.removesuffix("Out")) for name in wanted}
    assert len(set(names.values())) == len(names), "two components would get one name: name them in NAMES"
    schemas = {names[name]: _plain(every[name], names, answer=not REQUEST.search(name)) for name in wanted}
    first = json.loads((ROOT / FIRST).read_text())
    for name in wanted:
        _let_lack(schemas[names[name]], first.get(name))
    for pattern, name in SHARED.items():
        schemas[name] = {"type": "string", "pattern": pattern}
    schemas["Id"]["description"] = "UUIDv7."
    schemas["Digest"]["description"] = "SHA-256, lower-case hexadecimal."
    return {
        "openapi": found["openapi"],
        "info": found["info"],
        "paths": {},
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _let_lack(component: dict[str, Any], first: list[str] | None) -> None:
    """Let a component of an answer lack what came after its first fields: a list or an object is empty then, and all
    else None."""
    if first is None or "required" not in component:
        return
    empty: dict[str, Any] = {"array": [], "object": {}}
    for name in set(component["required"]).difference(first):
        field = component["properties"][name]
        if field.get("type") in empty:
            field["default"] = empty[field["type"]]
    component["required"] = [name for name in component["required"] if name in first]


def first_fields() -> str:
    """The text of `first_fields.json` as it has to be: with what it lacks, without what is gone."""
    found = json.loads((ROOT / "web" / "openapi.json").read_text())
    every: dict[str, Any] = found["components"]["schemas"]
    calls = {path: item for path, item in found["paths"].items() if not NOT_OURS.search(path)}
    known: dict[str, list[str]] = json.loads((ROOT / FIRST).read_text())
    answers = (name for name in _reached(calls, every) | {"ProblemOut"} if not REQUEST.search(name))
    fields = {name: known.get(name, list(every[name].get("properties", ()))) for name in sorted(answers)}
    return json.dumps({name: first for name, first in fields.items() if first}, indent=1) + "\n"


def _reached(part: Any, every: dict[str, Any]) -> set[str]:
    """The components that a part of the document needs, and those that they need."""
    found: set[str] = set()
    new = set(_references(part))
    while new:
        found |= new
        new = {name for one in new for name in _references(every[one])} - found
    return found


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(reference := part.get("$ref"), str):
            yield reference.rpartition("/")[2]
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


def _plain(part: Any, names: dict[str, str], answer: bool) -> Any:
    """A component without titles, and without the limits and defaults that the service knows."""
    if isinstance(part, list):
        return [_plain(value, names, answer) for value in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return {"$ref": f"#/components/schemas/{names[part['$ref'].rpartition('/')[2]]}"}
    if (shared := SHARED.get(part.get("pattern", ""))) is not None:
        return {"$ref": f"#/components/schemas/{shared}"}
    dropped = {"title", "pattern", "maxLength", "minLength", "maximum", "minimum", "maxItems", "minItems"}
    dropped |= {"propertyNames", "maxProperties", "x-max-characters"} | (set() if answer else {"default"})
    kept = {
        key: {name: _plain(one, names, answer) for name, one in value.items()}
        if key in ("properties", "patternProperties")
        else _plain(value, names, answer)
        for key, value in part.items()
        if key not in dropped
    }
    if "patternProperties" in kept:
        (kept["additionalProperties"],) = kept.pop("patternProperties").values()
    for value in kept.get("properties", {}).values():
        value.pop("enum", None)  # the few without a name stay texts
    return kept


def schema_text() -> str:
    """The text of `schema.py`, before it is formatted."""
    text = generate(
        json.dumps(document()),
        input_file_type=InputFileType.OpenAPI,
        output_model_type=DataModelType.MsgspecStruct,
        target_python_version=PythonVersion.PY_311,
        output_datetime_class=DatetimeClassType.Datetime,
        use_annotated=True,
        use_specialized_enum=True,
        use_schema_description=True,
        use_field_description=True,
        use_single_line_docstring=True,
        keyword_only=True,
        disable_timestamp=True,
        custom_file_header="# to be replaced",
        formatters=[Formatter.BUILTIN],
    )
    assert isinstance(text, str)
    text = text.replace("kw_only=True", "frozen=True, kw_only=True").replace("(StrEnum)", "(OpenEnum)")
    text = text.replace("from enum import StrEnum", "from pock_client.enumeration import OpenEnum")
    plain = ast.unparse(_Plain().visit(ast.parse(text)))
    return f"{HEADER}\n\n{_with_docstrings(plain)}\n"


def _with_docstrings(text: str) -> str:
    """Texts that stand alone in a line, with the quotes of docstrings."""
    return re.sub(r"^( *)(['\"])(?!\2)(.+)(?<!\2)\2$", r'\1"""\3"""', text, flags=re.MULTILINE)


class _Plain(ast.NodeTransformer):
    """Leaves descriptions to docstrings, and gives what an answer may lack None instead of a mark of its own."""

    answer = True

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.answer = not REQUEST.search(node.name)
        if isinstance(node.body[0], ast.Expr):
            node.body[0].value = ast.Constant(ast.get_docstring(node))
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "UNSET" and self.answer:
            node.value = ast.Constant(None)
            if "None" not in ast.unparse(node.annotation) and "Any" not in ast.unparse(node.annotation):
                node.annotation = ast.BinOp(node.annotation, ast.BitOr(), ast.Constant(None))
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return node.left if self.answer and ast.unparse(node.right) == "UnsetType" else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not (ast.unparse(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple)):
            return node
        kind, meta = node.slice.elts
        assert isinstance(meta, ast.Call)
        meta.keywords = [one for one in meta.keywords if one.arg != "description"]
        return node if meta.keywords else kind


def write(folder: Path) -> None:
    """Write all that is generated below `folder`, an empty one, which is then laid out as the repository is."""
    (folder / PACKAGE).mkdir(parents=True, exist_ok=True)
    for copy in COPIES:
        (folder / copy).mkdir(parents=True)
        for path in (ROOT / WEIGHTS).glob("*.py"):
            (folder / copy / path.name).write_text(COPIED + path.read_text())
    (folder / FIRST).write_text(first_fields())
    (folder / SCHEMA).write_text(schema_text())
    written = folder / PACKAGE / "asynchronous"
    shutil.copytree(ROOT / PACKAGE / "asynchronous", written, ignore=shutil.ignore_patterns("__pycache__"))
    rule = unasync.Rule(f"{written}/", f"{folder / PACKAGE / 'synchronous'}/", REPLACED)
    sources = sorted(written.glob("*.py"))
    unasync.unasync_files([str(path) for path in sources], [rule])
    made = [folder / PACKAGE / "synchronous" / path.name for path in sources]
    for path in made:
        text = path.read_text().replace("pock_client.asynchronous", "pock_client.synchronous")
        path.write_text(MADE + text.replace("AsyncClient", "Client"))
    # Formatted as what is written by hand is.
    for command in (
        ["check", "--fix", "--unsafe-fixes", "--quiet", "--exit-zero", "--select", "I,F401,RUF036,UP028,UP034"],
        ["format", "--quiet"],
    ):
        options = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
        subprocess.run([_ruff(), *command, *options, folder / SCHEMA, *made], check=True, cwd=folder)


def stale() -> list[str]:
    """The names of the files in the checkout that are not as they would be written now."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write(folder)
        fresh = {path.relative_to(folder): path.read_text() for path in _generated(folder)}
    present = {path.relative_to(ROOT): path.read_text() for path in _generated(ROOT)}
    return sorted(str(name) for name in fresh.keys() | present.keys() if fresh.get(name) != present.get(name))


def _generated(root: Path) -> list[Path]:
    return [
        root / SCHEMA,
        root / FIRST,
        *(path for made in (PACKAGE / "synchronous", *COPIES) for path in (root / made).glob("*.py")),
    ]


def _ruff() -> str:
    return str(Path(sys.executable).with_name("ruff"))


def main() -> int:
    """The exit status."""
    if sys.argv[1:] == ["--check"]:
        names = stale()
        for name in names:
            print(f"{name} is stale: run `python -m client.generate`")
        return 1 if names else 0
    with tempfile.TemporaryDirectory() as temporary:
        write(Path(temporary))
        for made in (PACKAGE / "synchronous", *COPIES):
            shutil.rmtree(ROOT / made, ignore_errors=True)
            shutil.copytree(Path(temporary) / made, ROOT / made)
        for made in (SCHEMA, FIRST):
            shutil.copy(Path(temporary) / made, ROOT / made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
