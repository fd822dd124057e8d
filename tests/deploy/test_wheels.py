"""The wheels: what is in them, what they say of themselves, and that a clean environment takes and runs them."""

import json
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.deploy.clean_folder import run
from tests.deploy.dockerfile import ROOT, WEB_DIST, context_files

PACKAGES = {"pock_agent": "device_agent", "pock_client": "client", "pock_server": "server", "pockengine": "compiler"}
"""Distribution, as wheels spell it -> its folder."""

MODEL = """
import numpy, onnx, safetensors.numpy
from onnx import TensorProto, helper, numpy_helper
weight = numpy_helper.from_array(numpy.eye(4, 3, dtype=numpy.float32), "weight")
node = helper.make_node("MatMul", ["x", "weight"], ["logits"])
values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [2, 4]), ("logits", [2, 3]))]
graph = helper.make_graph([node], "net", values[:1], values[1:], [weight])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), "net.onnx")
data = {"x": numpy.ones((2, 4), numpy.float32), "labels": numpy.array([0, 1])}
safetensors.numpy.save_file(data, "data.safetensors")
"""


def about(wheels: Path, package: str) -> tuple[Message, list[str]]:
    """The metadata of a wheel, and the names of its files."""
    with zipfile.ZipFile(next(wheels.glob(f"{package}-*.whl"))) as wheel:
        names = wheel.namelist()
        text = wheel.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    return Parser().parsestr(text), names


def test_the_wheels_bring_the_page_the_kernels_and_the_migrations(wheels: Path) -> None:
    names = {path.name.split("-")[0]: zipfile.ZipFile(path).namelist() for path in wheels.glob("*.whl")}
    assert set(names) == set(PACKAGES)
    server = names["pock_server"]
    built = [str(path.relative_to(ROOT / "server")) for path in (ROOT / WEB_DIST).rglob("*") if path.is_file()]
    assert set(built) <= set(server) and any(name.endswith(".js") for name in built)
    for package, folder in PACKAGES.items():
        tracked = [
            name.removeprefix(f"{folder}/") for name in context_files() if name.startswith(f"{folder}/{package}/")
        ]
        assert set(tracked) <= set(names[package]), set(tracked) - set(names[package])


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_says_what_it_is(wheels: Path, package: str) -> None:
    metadata, names = about(wheels, package)
    assert f"{package}/py.typed" in names, "users' type checkers read its annotations"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert str(metadata.get_payload()).lstrip().startswith("# ") and metadata["Description-Content-Type"]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_can_live_beside_others(wheels: Path, package: str) -> None:
    metadata, _ = about(wheels, package)
    needed = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    ours = {name.replace("_", "-") for name in PACKAGES}
    for requirement in needed:
        if requirement.name not in ours and "extra == 'test'" not in str(requirement.marker).replace('"', "'"):
            kinds = {one.operator for one in requirement.specifier}
            assert kinds == {">=", "<"}, f"{requirement} is no range"


@pytest.mark.large
def test_the_compiler_works_in_a_clean_environment(clean: Path, wheels: Path, tmp_path: Path) -> None:
    run(clean, "docker/install", str(tmp_path / "venv"), str(wheels), "pockengine")
    programs = tmp_path / "venv" / "bin"
    run(tmp_path, str(programs / "python"), "-c", MODEL)
    (tmp_path / "recipe.yaml").write_text("loss: cross_entropy\noptimizer: sgd\nbatch: 2\nupdate: full\n")
    pock = str(programs / "pock")
    run(tmp_path, pock, "compile", "net.onnx", "--recipe", "recipe.yaml", "--target", "host", "-o", "net.pock")
    train = ("train", "--data", "data.safetensors", "--steps", "3", "--report", "report.json")
    run(tmp_path, pock, "run", "net.pock", *train)
    losses = json.loads((tmp_path / "report.json").read_text())["loss"]
    assert len(losses) == 3 and losses[2] < losses[0]
