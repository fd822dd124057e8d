"""One model: its files, versions and tags; what destroys asks first."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.web.screens import screens
from tests.web.service import Service
from tests.web.shell.test_uploads import onnx_model
from tests.web.visitor import Visitor


def push(service: Service, path: Path, **external: Path) -> dict[str, Any]:
    """The next version of the name of the file."""
    digest = service.upload(path.read_bytes())
    beside = {name: service.upload(file.read_bytes()) for name, file in external.items()}
    row: dict[str, Any] = service.post("/models", {"name": path.stem, "digest": digest, "external": beside})
    return row


@pytest.fixture(scope="module")
def versions(service: Service, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("versions")
    return [push(service, onnx_model(folder, "net.onnx", np.full(100, n, np.float32))) for n in range(2)]


def test_versions_tags_download_and_deletion(
    visitor: Visitor, service: Service, versions: list[dict[str, Any]], tmp_path: Path
) -> None:
    old, new = versions
    visitor.sign_in()
    visitor.open(f"/models/{new['id']}", "net")
    section = visitor.section("Versions and tags")
    expect(section.get_by_role("row")).to_have_count(3)
    visitor.page.get_by_label("New tag of version 2").fill("golden")
    visitor.page.get_by_role("button", name="Set the tag").click()
    expect(section.get_by_role("row").nth(1)).to_contain_text("golden")
    assert service.get(f"/models/{new['id']}")["tags"] == ["golden"]
    visitor.page.get_by_role("button", name="Take golden away from version 2").click()
    dialog = visitor.page.get_by_role("dialog", name="Take golden away from version 2?")
    expect(dialog).to_contain_text("net:golden")
    dialog.get_by_role("button", name="Keep it").click()
    assert service.get(f"/models/{new['id']}")["tags"] == ["golden"]
    visitor.page.get_by_role("button", name="Take golden away from version 2").click()
    dialog.get_by_role("button", name="Take golden away").click()
    expect(section.get_by_role("row").nth(1)).not_to_contain_text("golden")
    with visitor.page.expect_download() as download:
        visitor.page.get_by_role("link", name="Download", exact=True).click()
    assert download.value.suggested_filename == "net-v2.onnx"
    download.value.save_as(tmp_path / "file")
    assert hashlib.sha256((tmp_path / "file").read_bytes()).hexdigest() == new["digest"]
    section.get_by_role("link", name="1", exact=True).click()
    expect(visitor.figure("Version")).to_have_text("v1")
    visitor.page.get_by_role("button", name="Delete net, version 1").click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(visitor.section("All models")).to_be_visible()
    assert service.client.get(f"/models/{old['id']}").status_code == 404


def test_weights_beside_a_model_are_downloaded_too(visitor: Visitor, service: Service, tmp_path: Path) -> None:
    path = onnx_model(tmp_path, "beside.onnx", np.arange(500, dtype=np.float32), "weights/w.data")
    model = push(service, path, **{"weights/w.data": tmp_path / "weights" / "w.data"})
    visitor.sign_in()
    visitor.open(f"/models/{model['id']}", "beside")
    with visitor.page.expect_download() as download:
        visitor.page.get_by_role("link", name="Download weights/w.data").click()
    assert download.value.suggested_filename == "w.data"
    download.value.save_as(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == (tmp_path / "weights" / "w.data").read_bytes()


@screens
def test_it_is_accessible_and_fits(
    visitor: Visitor,
    versions: list[dict[str, Any]],
    context_options: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    screen = request.node.callspec.id
    visitor.sign_in()
    visitor.open(f"/models/{versions[1]['id']}", "net")
    expect(visitor.page.locator(".loading")).to_have_count(0)
    visitor.screenshot(f"model-versions-{screen}")
    assert not visitor.is_wider_than_the_screen()
    if screen in ("light", "dark"):
        assert visitor.accessibility_violations(["color-contrast"] if screen == "dark" else None) == []
