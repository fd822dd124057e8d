"""Uploads from the page: cut and resumed, with external data, and files that cannot be sent."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from playwright.sync_api import Route, expect
from safetensors.numpy import save

from tests.web.service import Service, running_service
from tests.web.visitor import Visitor

MIB = 1 << 20


def onnx_model(folder: Path, name: str, weights: np.ndarray, data: str | None = None) -> Path:
    """A model with one weight, in the file itself or in external data of this name."""
    tensor = onnx.numpy_helper.from_array(weights, "w")
    if data is not None:
        (folder / data).parent.mkdir(parents=True, exist_ok=True)
        (folder / data).write_bytes(weights.tobytes())
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=data)
    ports = [onnx.helper.make_tensor_value_info(port, onnx.TensorProto.FLOAT, [1, weights.shape[0]]) for port in "xy"]
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "main", ports[:1], ports[1:], [tensor])
    path = folder / name
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    return path


@pytest.fixture(scope="module")
def large_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of about 50 MB whose weights no service has seen."""
    weights = np.frombuffer(os.urandom(50 * MIB), np.float32)
    return onnx_model(tmp_path_factory.mktemp("models"), "large-net.onnx", weights)


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def choose(visitor: Visitor, *files: Path, kind: str = "model") -> None:
    visitor.page.get_by_label(f"Files of a {kind}").set_input_files(list(files))


def upload_page(visitor: Visitor, kind: str = "model") -> None:
    visitor.sign_in()
    address, heading = {"model": ("/models", "Models"), "dataset": ("/datasets", "Data")}[kind]
    visitor.open(f"{address}?upload=1", heading)


class Cutter:
    """A network that is cut after some parts of an upload have passed, and remembers where each part began."""

    def __init__(self, visitor: Visitor, after: int, failures: int) -> None:
        self.offsets: list[int] = []
        self.url = ""
        self.after, self.left, self.cut = after, failures, 0
        visitor.page.route("**/v1/uploads/*", self._pass)

    def _pass(self, route: Route) -> None:
        down = len(self.offsets) >= self.after and self.left > 0
        if down:
            self.left -= 1
            self.cut += 1
            route.abort("connectionreset")
            return
        if route.request.method == "PATCH":
            self.offsets.append(int(route.request.headers["upload-offset"]))
            self.url = route.request.url
        route.continue_()


def test_a_cut_upload_goes_on_where_it_was(visitor: Visitor, service: Service, large_model: Path) -> None:
    upload_page(visitor)
    cutter = Cutter(visitor, after=3, failures=3)
    choose(visitor, large_model)
    visitor.page.get_by_label("Name; one that exists").fill("cut-net")
    visitor.page.get_by_role("button", name="Upload", exact=True).click()
    expect(visitor.section("Uploads")).to_contain_text("It goes on by itself")
    visitor.screenshot("upload-lost")
    expect(visitor.section("Uploads")).to_contain_text("Version 1. Uploaded.")
    (model,) = service.get("/models?name=cut-net")["items"]
    assert model["digest"] == digest_of(large_model)
    stored = service.client.get(f"/blobs/sha256/{model['digest']}")
    assert stored.content == large_model.read_bytes()
    assert cutter.cut == 3 and len(cutter.offsets) >= 6
    assert cutter.offsets == sorted(set(cutter.offsets)), "a part was sent twice"
    visitor.page.get_by_role("link", name="cut-net").first.click()
    visitor.heading("cut-net")


def test_an_upload_goes_on_after_the_page_was_reloaded(visitor: Visitor, service: Service, tmp_path: Path) -> None:
    weights = np.frombuffer(os.urandom(20 * MIB), np.float32)
    path = onnx_model(tmp_path, "reloaded-net.onnx", weights)
    upload_page(visitor)
    cutter = Cutter(visitor, after=2, failures=10_000)
    choose(visitor, path)
    visitor.page.get_by_role("button", name="Upload", exact=True).click()
    expect(visitor.section("Uploads")).to_contain_text("It goes on by itself")
    arrived = int(service.client.head(cutter.url).headers["upload-offset"])
    visitor.page.on("dialog", lambda dialog: dialog.accept())  # the page asks whether to leave
    visitor.page.reload()
    visitor.heading("Models")
    visitor.page.unroute("**/v1/uploads/*")
    again = Cutter(visitor, after=0, failures=0)
    choose(visitor, path)
    visitor.page.get_by_role("button", name="Upload", exact=True).click()
    expect(visitor.section("Uploads")).to_contain_text("Version 1. Uploaded.")
    assert cutter.offsets[0] == 0 and again.offsets[0] == arrived > cutter.offsets[-1] > 0
    (model,) = service.get("/models?name=reloaded-net")["items"]
    assert model["digest"] == digest_of(path)


def test_an_upload_survives_a_restart_of_the_service(visitor: Visitor, web_dist: Path, tmp_path: Path) -> None:
    path = onnx_model(tmp_path, "restarted-net.onnx", np.frombuffer(os.urandom(24 * MIB), np.float32))
    data_dir = tmp_path / "service"
    data_dir.mkdir()
    with running_service(data_dir, web_dist) as first:
        visitor.page.goto(f"{first.url}/#key={first.key}&next=/models?upload=1")
        visitor.heading("Models")
        held = HeldParts(visitor, after=3)
        choose(visitor, path)
        visitor.page.get_by_role("button", name="Upload", exact=True).click()
        while held.waiting is None:
            visitor.page.wait_for_timeout(20)
    held.waiting.continue_()  # to a service that is no more
    expect(visitor.section("Uploads")).to_contain_text("It goes on by itself")
    with running_service(data_dir, web_dist, int(first.url.rpartition(":")[2])) as second:
        expect(visitor.section("Uploads")).to_contain_text("Version 1. Uploaded.")
        (model,) = second.get("/models?name=restarted-net")["items"]
        assert model["digest"] == digest_of(path)
        assert held.offsets == sorted(held.offsets) and held.offsets.count(0) == 1
    visitor.page.goto("about:blank")


class HeldParts:
    """Lets some parts of an upload pass and holds the next one back; notes where each part began."""

    def __init__(self, visitor: Visitor, after: int) -> None:
        self.offsets: list[int] = []
        self.after = after
        self.waiting: Route | None = None
        visitor.page.route("**/v1/uploads/*", self._pass)

    def _pass(self, route: Route) -> None:
        if route.request.method != "PATCH":
            route.continue_()
            return
        self.offsets.append(int(route.request.headers["upload-offset"]))
        if len(self.offsets) == self.after + 1 and self.waiting is None:
            self.waiting = route
            return
        route.continue_()


def test_what_the_service_has_is_not_sent_again(visitor: Visitor, service: Service, tmp_path: Path) -> None:
    path = onnx_model(tmp_path, "known.onnx", np.arange(1000, dtype=np.float32))
    service.upload(path.read_bytes())
    upload_page(visitor)
    network = Cutter(visitor, after=0, failures=0)
    choose(visitor, path)
    visitor.page.get_by_role("button", name="Upload", exact=True).click()
    expect(visitor.section("Uploads")).to_contain_text("nothing was sent")
    assert network.offsets == []
    expect(visitor.section("All models").get_by_role("row").filter(has_text="known")).to_be_visible()
    visitor.page.get_by_role("button", name="Remove from this list").click()
    expect(visitor.page.get_by_role("heading", name="Uploads")).to_have_count(0)


def test_pausing_continuing_and_cancelling(visitor: Visitor, service: Service, tmp_path: Path) -> None:
    path = onnx_model(tmp_path, "paused-net.onnx", np.frombuffer(os.urandom(12 * MIB), np.float32))
    upload_page(visitor)
    Cutter(visitor, after=1, failures=10_000)
    choose(visitor, path)
    visitor.page.get_by_role("button", name="Upload", exact=True).click()
    uploads = visitor.section("Uploads")
    expect(uploads).to_contain_text("It goes on by itself")
    uploads.get_by_role("button", name="Pause", exact=True).click()
    expect(uploads).to_contain_text("Paused; 1.00 MiB of 12.0 MiB")
    assert visitor.accessibility_violations() == []
    visitor.page.unroute("**/v1/uploads/*")
    uploads.get_by_role("button", name="Continue").click()
    expect(uploads).to_contain_text("Version 1. Uploaded.")
    other = onnx_model(tmp_path, "cancelled-net.onnx", np.frombuffer(os.urandom(2 * MIB), np.float32))
    Cutter(visitor, after=0, failures=10_000)
    choose(visitor, other)
    visitor.page.get_by_role("button", name="Upload", exact=True).click()
    expect(uploads).to_contain_text("It goes on by itself")
    uploads.get_by_role("button", name="Cancel the upload of cancelled-net").click()
    dialog = visitor.page.get_by_role("dialog")
    expect(dialog).to_contain_text("What has arrived of it (0 B) is thrown away.")
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    expect(uploads).to_contain_text("Cancelled.")
    assert service.get("/models?name=cancelled-net")["items"] == []


def test_a_model_with_external_data(visitor: Visitor, service: Service, tmp_path: Path) -> None:
    weights = np.arange(5000, dtype=np.float32)
    path = onnx_model(tmp_path, "external-net.onnx", weights, "weights/w.data")
    notes = tmp_path / "notes.txt"
    notes.write_text("not of the model")
    upload_page(visitor)
    choose(visitor, path)
    panel = visitor.section("Upload a model")
    expect(panel.get_by_role("alert")).to_contain_text("keeps weights in weights/w.data, which you did not choose")
    expect(panel.get_by_role("button", name="Upload", exact=True)).to_have_count(0)
    choose(visitor, path, tmp_path / "weights" / "w.data", notes)
    expect(panel).to_contain_text("and 1 file of data")
    expect(panel).to_contain_text("notes.txt is not named by the model, and is not sent.")
    visitor.screenshot("upload-external")
    panel.get_by_role("button", name="Upload", exact=True).click()
    expect(visitor.section("Uploads")).to_contain_text("Version 1. Uploaded.")
    (model,) = service.get("/models?name=external-net")["items"]
    assert model["external"] == {"weights/w.data": hashlib.sha256(weights.tobytes()).hexdigest()}


def test_a_folder_of_a_model(visitor: Visitor, service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "folder-net"
    folder.mkdir()
    onnx_model(folder, "folder-net.onnx", np.ones(3000, np.float32), "data/w.bin")
    upload_page(visitor)
    visitor.page.get_by_label("Folder of a model").set_input_files(folder)
    visitor.page.get_by_role("button", name="Upload", exact=True).click()
    expect(visitor.section("Uploads")).to_contain_text("Version 1. Uploaded.")
    (model,) = service.get("/models?name=folder-net")["items"]
    assert list(model["external"]) == ["data/w.bin"]


def test_a_dropped_file_is_taken(visitor: Visitor, tmp_path: Path) -> None:
    upload_page(visitor)
    dropped = visitor.page.evaluate_handle(
        """() => {
            const found = new DataTransfer();
            found.items.add(new File(["nothing"], "notes.txt"));
            return found;
        }"""
    )
    zone = visitor.page.locator(".drop")
    zone.dispatch_event("dragover", {"dataTransfer": dropped})
    zone.dispatch_event("drop", {"dataTransfer": dropped})
    expect(visitor.section("Upload a model")).to_contain_text("No ONNX file is among them.")


def test_files_that_are_no_models_and_no_datasets(visitor: Visitor, tmp_path: Path) -> None:
    fake = tmp_path / "fake.onnx"
    fake.write_bytes(b"PK\x03\x04 a zip with another name")
    upload_page(visitor)
    choose(visitor, fake)
    alert = visitor.section("Upload a model").get_by_role("alert")
    expect(alert).to_contain_text("fake.onnx cannot be uploaded. Its bytes are not those of an ONNX file")
    visitor.screenshot("upload-no-model")
    assert visitor.accessibility_violations() == []
    table = tmp_path / "digits.csv"
    table.write_text("a,b\n1,2\n")
    uneven = tmp_path / "uneven.safetensors"
    uneven.write_bytes(save({"x": np.zeros((4, 2), np.float32), "labels": np.zeros(3, np.int64)}))
    visitor.open("/datasets?upload=1", "Data")
    choose(visitor, table, uneven, kind="dataset")
    panel = visitor.section("Upload a dataset")
    expect(panel).to_contain_text("safetensors.numpy makes one")
    expect(panel.get_by_role("alert")).to_contain_text("all need the same")


def test_a_dataset_is_uploaded_and_shown(visitor: Visitor, service: Service, tmp_path: Path) -> None:
    path = tmp_path / "fresh-data.safetensors"
    path.write_bytes(save({"x": np.zeros((4, 3, 8, 8), np.float32), "labels": np.arange(4)}))
    upload_page(visitor, "dataset")
    choose(visitor, path, kind="dataset")
    visitor.page.get_by_role("button", name="Upload", exact=True).click()
    expect(visitor.section("Uploads")).to_contain_text("Version 1. Uploaded.")
    visitor.section("Uploads").get_by_role("link", name="fresh-data").click()
    visitor.heading("fresh-data, version 1")


@pytest.fixture
def looking_key(service: Service) -> Iterator[str]:
    """A key that may only look."""
    made = service.post("/api-keys", {"name": "looker", "scopes": ["read"], "ttl_days": 1})
    yield made["key"]


def test_who_may_only_look_is_told_so(visitor: Visitor, service: Service, looking_key: str) -> None:
    service.add_model("looked-at")
    visitor.page.goto(f"{service.url}/#key={looking_key}&next=/models")
    visitor.heading("Models")
    button = visitor.page.get_by_role("button", name="Upload a model")
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", "Your key lacks the scope models:write, which this needs.")
    expect(visitor.page.get_by_role("button", name="Delete looked-at, version 1")).to_be_disabled()
    visitor.open("/models?upload=1", "Models")
    expect(visitor.page.get_by_role("alert")).to_contain_text("lacks the scope models:write")
    expect(visitor.page.get_by_label("Files of a model")).to_have_count(0)


def test_models_are_searched_sorted_and_deleted(visitor: Visitor, service: Service) -> None:
    for name in ("zeta-net", "beta-net", "<img src=x onerror=alert(1)>"):
        service.add_model(name)
    visitor.sign_in()
    visitor.open("/models?sort=name", "Models")
    table = visitor.section("All models")
    expect(table.get_by_role("link", name="<img src=x onerror=alert(1)>")).to_be_visible()
    visitor.page.get_by_label("Search models by name").fill("eta-net")
    expect(table.get_by_role("row")).to_have_count(3)
    expect(table.get_by_role("row").nth(1)).to_contain_text("beta-net")
    assert "q=eta-net" in visitor.page.url
    visitor.page.reload()
    expect(visitor.page.get_by_label("Search models by name")).to_have_value("eta-net")
    expect(table.get_by_role("row")).to_have_count(3)
    visitor.page.get_by_role("button", name="Delete zeta-net, version 1").click()
    dialog = visitor.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Delete zeta-net, version 1?")
    visitor.screenshot("delete-model")
    assert visitor.accessibility_violations() == []
    dialog.get_by_role("button", name="Keep").click()
    assert len(service.get("/models?name=zeta-net")["items"]) == 1
    visitor.page.get_by_role("button", name="Delete zeta-net, version 1").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(table.get_by_role("row")).to_have_count(2)
    assert service.get("/models?name=zeta-net")["items"] == []
    visitor.page.get_by_label("Search models by name").fill("nobody")
    expect(table).to_contain_text("No model has such a name.")
    visitor.page.get_by_role("link", name="Models").click()
    expect(visitor.page.get_by_label("Search models by name")).to_have_value("")
    expect(table.get_by_role("link", name="beta-net")).to_be_visible()
