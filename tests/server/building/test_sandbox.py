"""Builds by a worker that an attacker has taken over, under each way to confine it."""

import os
import re
import socket
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
import pytest
from onnx import TensorProto, helper

from pock_server.doctor.confinement import check
from pock_server.doctor.findings import Outcome
from pock_server.sandbox import choice
from pock_server.sandbox.choice import SandboxUnavailable, choose_sandbox
from pock_server.settings import Settings
from tests.server.building.test_runner import finished, wait_for
from tests.server.conftest import ServerFactory
from tests.server.harness import Person, Server

WORKER = Path(__file__).parents[1] / "hostile_worker.py"
HOSTILE: dict[str, Any] = {
    "runner": "inprocess",
    "worker_command": (sys.executable, str(WORKER)),
    "sandbox_readable": (str(WORKER),),
    "build_memory_bytes": 256 << 20,
    "build_disk_bytes": 64 << 20,
    "build_processes": 300,
}


@pytest.fixture(scope="module")
def engine_name() -> str:
    """What a child may do has nothing to do with the database."""
    return "sqlite"


@pytest.fixture(params=["bubblewrap", "namespaces"])
def mechanism(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(start_server: ServerFactory, mechanism: str, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("POCK_DATABASE_SECRET", "known to the service")
    return start_server(**HOSTILE, sandbox=mechanism)


def built(person: Person, behaviour: str, **told: Any) -> dict[str, Any]:
    """What becomes of a build with this behaviour."""
    return finished(person, person.build(name=behaviour, recipe={"batch": 1, **told}).json()["id"])


def log_of(person: Person, build: dict[str, Any]) -> str:
    return str(person.get(f"/builds/{build['id']}/log").text)


def test_nothing_of_the_service_or_of_others_can_be_read(server: Server, person: Person) -> None:
    settings = server.services.settings
    data = settings.data_dir.resolve()
    secrets = [
        data,
        data / "keys",
        settings.effective_work_dir,
        settings.effective_build_cache_dir,
        Path.home() / ".cache",
    ]
    paths = [*map(str, secrets), "/etc/shadow", "/etc/passwd", "/proc/1/environ", "/proc/1/root/etc/shadow"]
    build = built(person, "read", paths=paths)
    log = log_of(person, build)
    assert build["state"] == "succeeded", (build, log)
    assert "SUCCEEDED" not in log, log
    assert log.count("failed") >= len(paths) + 8
    assert f"sandbox: {settings.sandbox}" in log and "user 65534" in log and "NOT" not in log


def test_no_network(server: Server, person: Person) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind("\0pock-sandbox-test")
    abstract.listen()
    with listener, abstract:
        build = built(person, "connect", ports=[listener.getsockname()[1]], abstract="pock-sandbox-test")
    log = log_of(person, build)
    assert build["state"] == "succeeded" and "SUCCEEDED" not in log and log.count("failed") == 3


def test_no_signals_and_no_tracing(server: Server, person: Person) -> None:
    build = built(person, "signals", pid=os.getpid())
    log = log_of(person, build)
    assert build["state"] == "succeeded" and "SUCCEEDED" not in log and log.count("failed") == 4, log


def test_nothing_is_left_behind(server: Server, person: Person) -> None:
    build = built(person, "leave", mark=server.services.settings.data_dir.name + "-left")
    assert build["state"] == "succeeded"
    assert not [found for found in psutil.process_iter(["cmdline"]) if "-left" in " ".join(found.info["cmdline"] or [])]
    assert not list(server.services.settings.effective_work_dir.iterdir())


def test_forks_end_at_the_limit(server: Server, person: Person) -> None:
    log = log_of(person, built(person, "fork_bomb"))
    assert "forks: failed" in log


@pytest.mark.parametrize("grouped", [True, False])
def test_memory_of_all_processes_together(
    start_server: ServerFactory, mechanism: str, grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a control group, and, where none can be made, by sampling; another build goes on beside it."""
    if not grouped:
        monkeypatch.setattr("pock_server.runner.process.make_group", lambda limit: None)
    server = start_server(**HOSTILE, sandbox=mechanism, parallel_builds=2)
    person = server.person()
    other = person.build(name="wait", recipe={"seconds": 5}).json()["id"]
    build = built(person, "memory_bomb", bytes=HOSTILE["build_memory_bytes"])
    assert (build["state"], build["failure"]["code"]) == ("failed", 2003)
    assert "0.2 GiB of memory" in build["failure"]["detail"] and "POCK_BUILD_MEMORY_BYTES" in build["failure"]["detail"]
    assert finished(person, other)["state"] == "succeeded"


def test_disk_is_bounded(server: Server, person: Person) -> None:
    build = built(person, "disk_bomb")
    assert (build["state"], build["failure"]["code"]) == ("failed", 2002)
    assert "POCK_BUILD_DISK_BYTES" in build["failure"]["detail"]
    assert not list(server.services.settings.effective_work_dir.iterdir())


def test_a_workspace_poisons_no_other_one(server: Server, person: Person) -> None:
    """Each workspace has a cache of its own, and what is compiled for everybody cannot be written."""
    log = log_of(person, built(person, "poison"))
    assert log.count("cache: SUCCEEDED") == 1 and "base: SUCCEEDED" not in log and log.count("base: failed") == 3, log
    assert [path.read_text() for path in prepared(server, "objects/*")] == ["good"]
    other = server.person(workspace="other")
    assert "cache: failed" in log_of(other, built(other, "find_poison"))
    assert "cache: SUCCEEDED" in log_of(person, built(person, "find_poison"))


def prepared(server: Server, pattern: str) -> list[Path]:
    """What was prepared for all builds."""
    service = server.services.settings.effective_compiler_cache_dir / "service"
    return list(service.glob(f"prepared/*/pockengine/{pattern}"))


def test_builds_that_come_together_wait_for_one_preparation(start_server: ServerFactory, mechanism: str) -> None:
    server = start_server(**HOSTILE, sandbox=mechanism, parallel_builds=3)
    wait_for(lambda: server.services.compiler.load().version == "hostile")
    people = [server.person(workspace=name) for name in ("one", "two", "three")]
    builds = [person.build(name="succeed").json()["id"] for person in people]
    ended = [finished(person, build) for person, build in zip(people, builds, strict=True)]
    assert [build["state"] for build in ended] == ["succeeded"] * 3
    assert len(prepared(server, "objects/*")) == 1


def test_a_preparation_that_was_killed_is_done_again(start_server: ServerFactory, mechanism: str) -> None:
    """Builds read nothing that is half done."""
    server = start_server(**HOSTILE, sandbox=mechanism)
    wait_for(lambda: server.services.compiler.load().version == "hostile")
    person = server.person()
    built(person, "succeed")
    (whole,) = prepared(server, "objects")
    (whole / "half").write_text("bad")
    made = whole.parents[1]
    made.rename(made.parents[1] / "preparing" / made.name)
    log = log_of(person, built(person, "poison", batch=2))
    assert "preparing the C library" in log and log.count("base: failed") == 3, log
    assert [path.read_text() for path in prepared(server, "objects/*")] == ["good"]
    assert [path.suffix for path in (made.parents[1] / "preparing").iterdir()] == [".lock"]


def test_a_cache_that_grew_too_large_is_dropped(start_server: ServerFactory, mechanism: str) -> None:
    server = start_server(**HOSTILE, sandbox=mechanism, build_cache_bytes=1 << 20)
    person = server.person()
    assert built(person, "fill_cache")["state"] == "succeeded"
    wait_for(lambda: not list(server.services.settings.effective_build_cache_dir.iterdir()))


@pytest.fixture(scope="module")
def hostile_settings() -> dict[str, Any]:
    return {**HOSTILE, "sandbox": "bubblewrap", "max_artifact_bytes": 16 << 20, "build_disk_bytes": 256 << 20}


ARTIFACTS = {
    "link": "left no artifact",
    "folder_link": "left no artifact",
    "pipe": "something else than a file",
    "directory": "something else than a file",
    "huge": "exit status|2 bytes; the limit|File too large",
    "zip_bomb": "not simply stored",
    "many_members": "members; an artifact has",
    "lying_directory": "not simply stored|members overlap|damaged|plain form",
    "unsafe_name": "unsafe name",
    "deep_manifest": "manifest",
    "wide_manifest": "values",
    "nan_manifest": "not finite",
    "surrogate_manifest": "cannot be stored",
    "strange_manifest": "does not fit at inputs.0",
    "no_program": "names no program",
    "other_backend": "backend 'reference', which devices do not run",
}


def test_what_a_child_leaves_is_another_s_word(start_server: ServerFactory, hostile_settings: dict[str, Any]) -> None:
    """Each of these would have been stored, followed or unpacked; the service goes on and its pages stay whole."""
    server = start_server(**hostile_settings)
    person = server.person()
    secret = server.services.settings.data_dir / "keys" / "wrapping.key"
    for behaviour, sentence in ARTIFACTS.items():
        path = secret if behaviour == "link" else secret.parent
        build = built(person, behaviour, path=str(path.resolve()))
        assert build["state"] == "failed" and build["failure"]["code"] == 2001, (behaviour, build)
        assert re.search(sentence, build["failure"]["detail"]), (behaviour, build["failure"])
    assert built(person, "succeed")["state"] == "succeeded"
    assert person.get("/builds").status_code == 200


@pytest.mark.parametrize("stream, long", [("stdout", False), ("stdout", True), ("stderr", False), ("stderr", True)])
def test_floods_end(start_server: ServerFactory, hostile_settings: dict[str, Any], stream: str, long: bool) -> None:
    person = start_server(**hostile_settings).person()
    build = built(person, "flood", stream=stream, long=long)
    assert build["state"] == "failed" and "without end" in build["failure"]["detail"]
    assert len(log_of(person, build)) < 2 << 20


def test_lines_are_another_s_word(start_server: ServerFactory, hostile_settings: dict[str, Any]) -> None:
    person = start_server(**hostile_settings).person()
    build = built(person, "strange_lines")
    assert build["state"] == "succeeded" and build["summary"]["kernels"] == 5
    stages = person.get(f"/builds/{build['id']}/events").text.count("event: progress")
    assert stages < 200  # of 5000
    assert person.get("/builds").json()["items"][0]["id"] == build["id"]


def range_bomb() -> bytes:
    """A model of one line that wants 4.8 GB."""
    ends = [
        helper.make_tensor(name, TensorProto.INT64, [], [value])
        for name, value in (("a", 0), ("b", 600_000_000), ("c", 1))
    ]
    nodes = [
        helper.make_node("Range", ["a", "b", "c"], ["all"]),
        helper.make_node("ReduceSum", ["all"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "cast"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "bomb", ports[:1], ports[1:], ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return bytes(model.SerializeToString())


def small_model() -> bytes:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], np.ones(12, np.float32))
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3]),
    ]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net", ports[:1], ports[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return bytes(model.SerializeToString())


def test_the_compiler_itself(start_server: ServerFactory) -> None:
    """A model that wants 4.8 GB ends at the limit, and an honest one is built, by the real worker."""
    server = start_server(runner="inprocess", sandbox="namespaces", build_memory_bytes=3 << 30, compiler_cache_dir="")
    person = server.person()
    wait_for(lambda: server.services.compiler.load().version != "1", 120)
    recipe = {"batch": 2, "loss": "cross_entropy", "update": "full"}
    bomb = person.build(model_id=person.model(range_bomb())["id"], recipe=recipe)
    good = person.build(model_id=person.model(small_model())["id"], recipe=recipe)
    ended = finished(person, bomb.json()["id"], 120)
    failure = ended["failure"]
    assert failure["code"] == 2003, (failure, log_of(person, ended))
    assert "3.0 GiB" in failure["detail"] and "POCK_BUILD_MEMORY_BYTES" in failure["detail"]
    build = finished(person, good.json()["id"], 240)
    assert build["failure"] is None, (build["failure"], log_of(person, build)[-1000:])
    manifest = person.get(f"/artifacts/{build['artifact_digest']}").json()
    assert {port["name"] for port in manifest["inputs"]} == {"x", "labels"}


def test_root_without_a_sandbox_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> Any:
        raise SandboxUnavailable("not here")

    monkeypatch.setattr(choice, "_look_around", fails)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SandboxUnavailable, match=r"bubblewrap: not here; namespaces: not here.*POCK_SANDBOX=off"):
        choose_sandbox(Settings(data_dir=tmp_path, sandbox="auto"))
    assert str(choose_sandbox(Settings(data_dir=tmp_path, sandbox="off"))) == "sandbox: off"


def test_the_report_names_what_is_enforced(tmp_path: Path, mechanism: str) -> None:
    found = choose_sandbox(Settings(data_dir=tmp_path, sandbox=cast(Any, mechanism))).protections
    assert all(item.enforced for item in found), found
    names = {"unprivileged user", "no capabilities", "no network", "own processes", "own files", "memory", "disk"}
    assert names <= {item.name for item in found}


def test_the_doctor_looks_at_the_sandbox(tmp_path: Path, mechanism: str) -> None:
    found = list(check(Settings(data_dir=tmp_path, sandbox=cast(Any, mechanism))))
    assert [(finding.outcome, mechanism in finding.says) for finding in found] == [(Outcome.OK, True)]
    assert [finding.outcome for finding in check(Settings(data_dir=tmp_path, sandbox="off"))] == [Outcome.WARN]
    assert not list(check(Settings(data_dir=tmp_path, runner="none")))
