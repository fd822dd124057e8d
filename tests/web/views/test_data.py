"""The list of datasets, and one dataset: samples in every form, numbers, labels, fits, versions and tags."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect
from safetensors.numpy import save

from tests.web.data import Data
from tests.web.device import Device
from tests.web.screens import screens
from tests.web.service import Service
from tests.web.visitor import Visitor

HOSTILE = "<img src=x onerror=alert(1)>"


def push(service: Service, name: str, **tensors: Any) -> dict[str, Any]:
    digest = service.upload(save(tensors))
    row: dict[str, Any] = service.post("/datasets", {"name": name, "digest": digest})
    return row


def pictures() -> np.ndarray:
    """Thirty gradients of 24 x 24 in colour, each turned further than the one before."""
    angles = np.linspace(0, np.pi, 30)[:, None, None]
    y, x = np.mgrid[0:24, 0:24] / 23
    planes = [np.cos(angles) * x + np.sin(angles) * y, np.sin(angles) * x, np.cos(angles) * y]
    return np.stack(planes, axis=1).astype(np.float32)


@pytest.fixture(scope="module")
def images(service: Service) -> dict[str, Any]:
    labels = np.repeat(np.arange(10), [1, 5, 3, 3, 3, 3, 3, 3, 3, 3]).astype(np.int64)
    return push(service, "gradients", input=pictures(), labels=labels)


@pytest.fixture(scope="module")
def curves(service: Service) -> dict[str, Any]:
    time = np.linspace(0, 8 * np.pi, 128)
    waves = np.stack([np.sin(time * (1 + i / 40))[None, :] * np.array([[1], [0.6], [0.3]]) for i in range(20)])
    waves[3, 1, 40:60] = np.nan
    return push(service, "accelerometer", input=waves.astype(np.float32), labels=np.arange(20, dtype=np.int64) % 4)


@screens
def test_the_views_of_data_are_accessible_and_fit(
    visitor: Visitor,
    data: Data,
    images: dict[str, Any],
    curves: dict[str, Any],
    context_options: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    screen = request.node.callspec.id
    visitor.sign_in()
    views = {
        "models": ("/models", "Models"),
        "models-upload": ("/models?upload=1", "Models"),
        "data": ("/datasets", "Data"),
        "data-upload": ("/datasets?upload=1", "Data"),
        "dataset-images": (f"/datasets/{images['id']}", "gradients"),
        "dataset-curves": (f"/datasets/{curves['id']}", "accelerometer"),
        "dataset-missing": (f"/datasets/{images['id'][:-12]}{12 * '0'}", "Dataset"),
    }
    for name, (address, heading) in views.items():
        visitor.open(address, heading)
        expect(visitor.page.locator(".loading")).to_have_count(0)
        visitor.screenshot(f"{name}-{screen}")
        assert not visitor.is_wider_than_the_screen(), name
        if screen in ("light", "dark"):
            assert visitor.accessibility_violations(["color-contrast"] if screen == "dark" else None) == [], name


def pixels(canvas: Locator) -> np.ndarray:
    """The canvas's pixels [height, width, 4]."""
    found: list[int] = canvas.evaluate(
        "canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
    )
    return np.array(found).reshape(24, 24, 4)


def test_images_are_painted(visitor: Visitor, images: dict[str, Any]) -> None:
    visitor.sign_in()
    visitor.open(f"/datasets/{images['id']}", "gradients, version 1")
    samples = visitor.section("Samples")
    canvas = samples.locator("canvas")
    expect(canvas).to_have_count(12)
    first = pictures()[0]
    scaled = (first - first.min()) / (first.max() - first.min()) * 255
    painted = pixels(canvas.first)
    np.testing.assert_allclose(painted[:, :, :3], scaled.transpose(1, 2, 0), atol=1)
    assert (painted[:, :, 3] == 255).all()
    expect(samples.get_by_role("listitem").nth(1)).to_contain_text("label 1")
    samples.get_by_role("button", name="Next").click()
    expect(samples).to_contain_text("12 to 23 of 30")
    assert "from=12" in visitor.page.url
    samples.get_by_role("button", name="Next").click()
    expect(canvas).to_have_count(6)
    expect(samples.get_by_role("button", name="Next")).to_be_disabled()
    samples.get_by_label("Numbers").check()
    expect(canvas).to_have_count(0)
    assert "as=numbers" in visitor.page.url
    visitor.page.reload()
    expect(samples.get_by_label("Numbers")).to_be_checked()
    expect(samples).to_contain_text("24 to 29 of 30")


def test_curves_have_gaps_where_nothing_is_finite(visitor: Visitor, curves: dict[str, Any]) -> None:
    visitor.sign_in()
    visitor.open(f"/datasets/{curves['id']}", "accelerometer")
    plots = visitor.section("Samples").get_by_role("img")
    expect(plots).to_have_count(12)
    lines = plots.nth(3).locator("path")
    expect(lines).to_have_count(3)
    moves = [(line.get_attribute("d") or "").count("M") for line in lines.all()]
    assert moves == [1, 2, 1]
    expect(visitor.section("Tensors").get_by_role("row").nth(1)).to_contain_text("20")


def test_text_and_numbers(visitor: Visitor, service: Service) -> None:
    sentences = [b"<b>first</b>", b"second", b"third"]
    text = np.zeros((3, 24), np.uint8)
    for row, sentence in zip(text, sentences, strict=True):
        row[: len(sentence)] = list(sentence)
    ids = np.arange(3 * 100, dtype=np.int64).reshape(3, 100)
    dataset = push(service, "sentences", text=text, ids=ids)
    visitor.sign_in()
    visitor.open(f"/datasets/{dataset['id']}?tensor=text", "sentences")
    samples = visitor.section("Samples")
    expect(samples).to_contain_text("<b>first</b>")
    assert visitor.page.locator("main b").count() == 0
    samples.get_by_label("Tensor").select_option("ids")
    expect(samples.get_by_role("listitem").nth(1)).to_contain_text("100  101  102")
    expect(samples.get_by_label("Curves")).to_be_visible()


def test_labels_numbers_and_fits(visitor: Visitor, data: Data, images: dict[str, Any]) -> None:
    visitor.sign_in()
    visitor.open(f"/datasets/{images['id']}", "gradients")
    labels = visitor.section("Labels")
    expect(labels).to_contain_text("10 classes in 30 labels.")
    expect(labels.get_by_role("listitem").nth(1)).to_contain_text("5 16.7 %")
    row = visitor.section("Tensors").get_by_role("row").nth(1)
    values = pictures()
    expect(row).to_contain_text(f"{values.max():.4g}")
    expect(row).to_contain_text("3 × 24 × 24")
    fits = visitor.section("Fit with models").get_by_role("listitem").filter(has_text="mobilenet")
    expect(fits).to_contain_text("does not fit")
    expect(fits).to_contain_text("the model needs")
    visitor.open(f"/datasets/{data.dataset['id']}", "digits-shifted")
    expect(fits.locator(".badge")).to_have_text("fits")
    assert visitor.copy_command("Labels").endswith(f"/datasets/{data.dataset['id']}/labels")


def test_versions_tags_download_and_deletion(visitor: Visitor, service: Service, tmp_path: Path) -> None:
    old = push(service, "versioned", x=np.zeros((2, 2), np.float32))
    new = push(service, "versioned", x=np.ones((3, 2), np.float32))
    visitor.sign_in()
    visitor.open(f"/datasets/{new['id']}", "versioned, version 2")
    versions = visitor.section("Versions and tags")
    expect(versions.get_by_role("row")).to_have_count(3)
    visitor.page.get_by_label("New tag of version 2").fill("golden")
    visitor.page.get_by_role("button", name="Set the tag").click()
    expect(versions.get_by_role("row").nth(1)).to_contain_text("golden")
    assert service.get(f"/datasets/{new['id']}")["tags"] == ["golden"]
    with visitor.page.expect_download() as download:
        visitor.page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "versioned-v2.safetensors"
    download.value.save_as(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == save({"x": np.ones((3, 2), np.float32)})
    versions.get_by_role("link", name="1").click()
    visitor.heading("versioned, version 1")
    visitor.page.get_by_role("button", name="Delete versioned, version 1").click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(visitor.section("All datasets")).to_be_visible()
    assert [row["id"] for row in service.get("/datasets?name=versioned")["items"]] == [new["id"]]
    assert service.client.get(f"/datasets/{old['id']}").status_code == 404


def test_what_a_run_used_is_not_deleted(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    visitor.open("/datasets?q=digits-shifted", "Data")
    row = visitor.section("All datasets").get_by_role("row").nth(1)
    expect(row).to_contain_text("24")
    expect(row).to_contain_text("input 3 × 32 × 32, labels")
    button = visitor.page.get_by_role("button", name="Delete digits-shifted, version 1")
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", "2 runs used it; delete them first.")


def test_what_stays_on_a_device_has_no_preview(visitor: Visitor, service: Service) -> None:
    device = Device(service, "keeper", {"features": ["local_data"]})
    told = {
        "name": "private-photos",
        "digest": "ab" * 32,
        "size": 12345,
        "samples": 40,
        "tensors": [{"name": "input", "dtype": "f32", "shape": [40, 3, 8, 8]}],
    }
    device.tell_data(told)
    (row,) = service.get("/datasets?name=private-photos")["items"]
    visitor.sign_in()
    visitor.open("/datasets?q=private", "Data")
    expect(visitor.section("All datasets").get_by_role("row").nth(1)).to_contain_text("on keeper")
    visitor.open(f"/datasets/{row['id']}", "private-photos")
    expect(visitor.section("Samples")).to_contain_text("stays on its device")
    expect(visitor.page.get_by_role("alert")).to_have_count(0)
    expect(visitor.page.get_by_role("link", name="Download")).to_have_count(0)
    expect(visitor.section("Overview")).to_contain_text("its bytes never leave the device")
    visitor.screenshot("dataset-local")
    added = visitor.page.get_by_label("Command: adding a dataset")
    expect(added).to_have_text("pock-agent data add private-photos train.safetensors")


def test_hostile_names_are_text(visitor: Visitor, service: Service) -> None:
    dataset = push(service, HOSTILE, **{HOSTILE: np.zeros((2, 2), np.float32), "x" * 400: np.ones((2, 3), np.float32)})
    visitor.sign_in()
    visitor.open(f"/datasets/{dataset['id']}", HOSTILE)
    expect(visitor.section("Tensors").get_by_role("button", name=HOSTILE)).to_be_visible()
    expect(visitor.section("Samples").locator(".sample-text")).to_have_count(2)
    assert visitor.page.locator("main img").count() == 0
    assert not visitor.is_wider_than_the_screen()
    visitor.open("/datasets", "Data")
    expect(visitor.page.get_by_role("link", name=HOSTILE)).to_be_visible()
    assert not visitor.is_wider_than_the_screen()


def test_an_empty_service_says_how_to_begin(visitor: Visitor) -> None:
    visitor.sign_in()
    for what in ("models", "datasets"):
        visitor.page.route(f"**/v1/{what}?*", lambda route: route.fulfill(json={"items": [], "next_cursor": None}))
    visitor.open("/datasets", "Data")
    expect(visitor.page.get_by_label("Command: pushing a dataset")).to_have_text("pock push train.safetensors")
    visitor.screenshot("data-empty")
    visitor.open("/models", "Models")
    visitor.screenshot("models-empty")
    visitor.page.get_by_role("link", name="Upload an ONNX file").click()
    expect(visitor.page.get_by_role("heading", name="Upload a model")).to_be_visible()
