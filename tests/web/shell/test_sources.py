"""The front end's types come from the document that the server prints, and its packages are pinned."""

import json
import subprocess
import sys
from pathlib import Path

from tests.web.service import REPOSITORY

WEB = REPOSITORY / "web"


def test_openapi_document_is_the_servers() -> None:
    program = str(Path(sys.executable).with_name("pock-server"))
    printed = subprocess.run([program, "openapi"], check=True, capture_output=True, timeout=60).stdout
    kept = json.loads((WEB / "openapi.json").read_text())
    assert json.loads(printed) == kept, "run: pock-server openapi > web/openapi.json"


def test_lock_file_pins_versions_and_names_no_host() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text())
    package = json.loads((WEB / "package.json").read_text())
    assert not [path for path, entry in lock["packages"].items() if "resolved" in entry]
    for name, version in {**package["dependencies"], **package["devDependencies"]}.items():
        assert version[0].isdigit(), f"{name} is not pinned exactly"
        assert lock["packages"][f"node_modules/{name}"]["version"] == version


def test_style_sheets_are_short() -> None:
    """The linter sees to the other sources."""
    files = list((WEB / "src").rglob("*.css"))
    assert files
    assert {str(path): count for path in files if (count := len(path.read_text().splitlines())) > 400} == {}
