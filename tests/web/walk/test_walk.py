"""The whole walk of a new user in the browser: from an empty service to weights that PyTorch loads, and a comparison of
three schemes on two devices. The compiler, the workers and the agents are the real ones."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, expect
from safetensors.torch import load_file

from demo import fleet
from demo.processes import program, running
from tests.e2e.small_model import Files, SmallNet, make_files
from tests.web.conftest import visiting
from tests.web.service import Service, running_service
from tests.web.visitor import Visitor

SCHEMES = {"everything": "Everything", "biases": "All biases, and the head", "head": "Head only"}
STEPS = 60
LONG_MS = 240_000


@pytest.fixture(scope="module")
def empty(web_dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("service"), web_dist, worker={}) as service:
        yield service


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def agents() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def visitor(browser: Browser, empty: Service, node_modules: Path, context_options: dict[str, Any]) -> Iterator[Visitor]:
    yield from visiting(browser, empty, node_modules, context_options)


def upload(visitor: Visitor, step: str, kind: str, file: Path, name: str) -> None:
    """By the button of the first steps."""
    visitor.open("/", "Overview")
    visitor.section("First steps").get_by_role("link", name=step).click()
    visitor.page.get_by_label(f"Files of a {kind}").set_input_files(file)
    visitor.page.get_by_role("button", name="Upload", exact=True).click()
    expect(visitor.page.get_by_role("row").filter(has=visitor.page.get_by_role("link", name=name))).to_be_visible()


def enrol(visitor: Visitor, name: str, target: str, folder: Path, agents: ExitStack) -> None:
    """The person types on the device what the page says, and the page says that it joined."""
    visitor.open("/fleet?enrol=1", "Fleet")
    dialog = visitor.page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_role("button", name="Make the command").click()
    told = dialog.get_by_label("Command: enrolling the device").inner_text()
    enroll, run = (shlex.split(part) for part in told.split("&&"))
    options = ["--state-dir", str(folder)]
    command = [program(enroll[0]), *enroll[1:], "--target", target, *options]
    subprocess.run(command, check=True, capture_output=True)
    agents.enter_context(running([program(run[0]), *run[1:], *options], folder.with_suffix(".log")))
    expect(dialog.get_by_text(f"{name} joined")).to_be_visible()
    dialog.get_by_role("button", name="Close").click()


def build(visitor: Visitor, preset: str, name: str, targets: list[str]) -> list[str]:
    """A scheme from a preset, for all targets; the addresses of its builds, once they are there."""
    visitor.open("/models", "Models")
    visitor.page.get_by_role("region", name="Models").get_by_role("link", name="small").click()
    visitor.page.get_by_role("link", name="Choose what to train").first.click()
    visitor.heading("What to train of small")
    visitor.page.get_by_label("Begin with").select_option(preset)
    form = visitor.section("Build it")
    for target in targets:
        form.get_by_label(target).set_checked(True)
    form.get_by_label("Name of the build").fill(name)
    form.get_by_role("button", name=f"Build for {len(targets)} targets").click()
    links = form.get_by_role("link", name=name)
    expect(links).to_have_count(len(targets))
    return [str(link.get_attribute("href")).removeprefix("#") for link in links.all()]


def start(visitor: Visitor, address: str, name: str) -> str:
    """A run of a build, as the form proposes it but for steps, evaluation and a profile; its address."""
    visitor.open(address, name)
    form = visitor.section("Start runs")
    expect(form.get_by_role("button", name="Start run")).to_be_enabled(timeout=LONG_MS)
    form.get_by_label("Training data").select_option(label="digits-train (1,400 samples)")
    form.get_by_label("Evaluation data").select_option(label="digits-held-out (397 samples)")
    form.get_by_label("Steps", exact=True).fill(str(STEPS))
    form.get_by_text("More", exact=True).click()
    form.get_by_label("Time each operator").check()
    form.get_by_role("button", name="Start run").click()
    visitor.heading(f"small · {name} · digits-train")
    return str(visitor.page.evaluate("location.hash.slice(1)"))


def ended(visitor: Visitor, address: str) -> None:
    visitor.open(address, "small")
    expect(visitor.page.locator("header .badge, .page-head .badge").filter(has_text="succeeded").first).to_be_visible(
        timeout=LONG_MS
    )
    expect(visitor.section("Time per operator").locator(".part-sum").first).to_contain_text("forward")
    expect(visitor.section("Log")).to_contain_text(re.compile(r"train begins: steps \d+.*succeeded", re.DOTALL))


def timed(visitor: Visitor, address: str, name: str) -> None:
    """The page of what a build made has the operators' times, too."""
    visitor.open(address, name)
    visitor.page.get_by_role("link", name="Open the artifact").click()
    operators = visitor.section("Time per operator")
    expect(operators.locator(".part-sum").first).to_contain_text("forward")
    visitor.screenshot("walk-artifact-timed")
    assert visitor.accessibility_violations() == []


def compared(visitor: Visitor, schemes: list[str], devices: set[str]) -> None:
    """All runs of the list, marked and put beside each other: a cell and a point for each device and scheme."""
    visitor.open("/runs", "Runs")
    marks = visitor.page.get_by_role("checkbox", name="Mark")
    expect(marks).to_have_count(len(schemes) * len(devices))
    for mark in marks.all():
        mark.check()
    visitor.page.get_by_role("link", name=f"Compare {len(schemes) * len(devices)} marked").click()
    visitor.heading("Compare")
    cells = visitor.section("Devices by schemes").get_by_role("row")
    expect(cells).to_have_count(1 + len(devices))
    for scheme in schemes:
        expect(cells.first).to_contain_text(scheme)
    for device in devices:
        told = cells.filter(has_text=device).get_by_role("cell")
        expect(told.filter(has_text=re.compile(r"\d\s%.*B,.*s"))).to_have_count(len(schemes))
    points = visitor.section("Accuracy against cost").get_by_role("button")
    expect(points).to_have_count(len(schemes) * len(devices))
    visitor.screenshot("walk-compared")


def download(visitor: Visitor, folder: Path) -> Path:
    with visitor.page.expect_download() as told:
        visitor.section("Trained weights").get_by_role("link", name="Download the trained weights").click()
    file = folder / told.value.suggested_filename
    told.value.save_as(file)
    return file


def accuracy_in_pytorch(weights: Path, held_out: Path) -> float:
    """As the page's lines say: the model's own code, with the trained weights loaded over the first ones."""
    torch.manual_seed(0)
    model = SmallNet().eval()
    missing = model.load_state_dict(load_file(weights), strict=False)
    assert missing.unexpected_keys == []
    data = load_file(held_out)
    with torch.no_grad():
        return float((model(data["image"]).argmax(1) == data["labels"]).float().mean())


@pytest.mark.skipif(not fleet.can_run_aarch64(), reason="needs an emulator of aarch64")
def test_from_an_empty_service_to_weights_in_pytorch(
    visitor: Visitor, empty: Service, files: Files, tmp_path: Path, agents: ExitStack
) -> None:
    train, held_out = tmp_path / "digits-train.safetensors", tmp_path / "digits-held-out.safetensors"
    train.write_bytes(files.train.read_bytes())
    held_out.write_bytes(files.held_out.read_bytes())
    visitor.sign_in()
    upload(visitor, "Upload a model", "model", files.model, "small")
    upload(visitor, "Upload data", "dataset", train, "digits-train")
    upload(visitor, "Upload data", "dataset", held_out, "digits-held-out")
    enrol(visitor, "desk", "host", tmp_path / "desk", agents)
    enrol(visitor, "pi", fleet.PI, tmp_path / "pi", agents)
    builds = {name: build(visitor, preset, name, ["host", fleet.PI]) for name, preset in SCHEMES.items()}
    runs = {name: [start(visitor, address, name) for address in addresses] for name, addresses in builds.items()}
    for addresses in runs.values():
        for address in addresses:
            ended(visitor, address)
    timed(visitor, builds["everything"][0], "everything")
    compared(visitor, list(runs), {"desk", "pi"})
    visitor.open(runs["everything"][0], "small")
    weights = download(visitor, tmp_path)
    measured = empty.get(runs["everything"][0])["report"]["eval_after"]["accuracy"]
    assert measured > 0.5
    assert accuracy_in_pytorch(weights, files.held_out) == pytest.approx(measured, abs=0.003)
