"""The front end's own checks, and that its types come from the document that the server prints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.web.service import REPOSITORY

WEB = REPOSITORY / "web"


def test_openapi_document_is_the_servers() -> None:
    program = str(Path(sys.executable).with_name("pock-server"))
    printed = subprocess.run([program, "openapi"], check=True, capture_output=True, timeout=60).stdout
    kept = json.loads((WEB / "openapi.json").read_text())
    assert json.loads(printed) == kept, "run: pock-server openapi > web/openapi.json"


def test_types_lint_and_unit_tests(node_modules: Path) -> None:
    done = subprocess.run(["npm", "run", "-s", "check"], cwd=WEB, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lock_file_pins_versions_and_names_no_host() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text())
    package = json.loads((WEB / "package.json").read_text())
    assert not [path for path, entry in lock["packages"].items() if "resolved" in entry]
    for name, version in {**package["dependencies"], **package["devDependencies"]}.items():
        assert version[0].isdigit(), f"{name} is not pinned exactly"
        assert lock["packages"][f"node_modules/{name}"]["version"] == version


@pytest.mark.parametrize("suffix", [".ts", ".tsx", ".css"])
def test_files_are_short(suffix: str) -> None:
    files = [path for path in (WEB / "src").rglob(f"*{suffix}") if path.name != "schema.ts"]
    assert files
    assert {str(path): count for path in files if (count := len(path.read_text().splitlines())) > 400} == {}
