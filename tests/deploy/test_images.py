"""The images: the Dockerfile is read, and the scripts that it runs are run in an empty folder, which takes no container
engine. What comes from elsewhere than Python's packages (base images, Debian's packages) is not tried here.
"""

import http.server
import os
import re
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pockengine.codegen.cuda import nvrtc
from tests.deploy.clean_folder import run
from tests.deploy.dockerfile import ROOT, Stage, command_of, context_files, environment, lineage, read_dockerfile

IMAGES = ("api", "worker", "agent")
STAGES = read_dockerfile((ROOT / "docker" / "Dockerfile").read_text())
VENV = "/opt/pock"


def test_every_stage_is_built_from_something_pinned() -> None:
    for stage in STAGES.values():
        tag = stage.base.partition(":")[2]
        assert stage.base in STAGES or re.fullmatch(r"[\d.]+[\w.-]*", tag), f"{stage.base} has no version"


def test_every_file_that_is_copied_exists() -> None:
    files = context_files()
    seen: set[str] = set()
    for stage in STAGES.values():
        for origin, sources, _ in stage.copies():
            if origin is not None:
                assert origin in seen, f"{stage.name} copies from {origin}, which is no stage before it"
                continue
            for source in sources:
                assert any(name == source or name.startswith(f"{source}/") for name in files), source
        seen.add(stage.name)


def test_scripts_that_are_run_are_there_and_may_be_run() -> None:
    for stage in STAGES.values():
        for text in stage.all("RUN"):
            script = text.split()[0]
            if script.startswith("docker/"):
                assert os.access(ROOT / script, os.X_OK), script
                assert any(
                    script in sources for below in lineage(STAGES, stage.name) for _, sources, _ in below.copies()
                )


def test_the_context_has_no_secrets_and_nothing_built() -> None:
    files = context_files()
    assert "server/pock_server/app.py" in files and "requirements/lock.txt" in files
    assert not [name for name in files if re.match(r"tests/|docs/|docker/secrets/|\.git|benchmarks/", name)]
    assert not [name for name in files if "__pycache__" in name or "node_modules" in name or ".egg-info" in name]


@pytest.mark.parametrize("image", IMAGES)
def test_images_run_without_root_and_say_how_they_are(image: str) -> None:
    users = [text for stage in lineage(STAGES, image) for text in stage.all("USER")]
    assert users and re.fullmatch(r"[1-9]\d+:[1-9]\d+", users[-1])
    last = [kind for kind, _ in STAGES[image].instructions]
    assert "RUN" not in last[last.index("USER") :], "what is installed as the image's user could be changed by it"
    assert STAGES[image].all("HEALTHCHECK") and STAGES[image].all("CMD")
    assert command_of(STAGES[image].all("CMD")[0])[0].startswith("pock-")
    assert environment(STAGES, image)["PATH"].startswith(f"{VENV}/bin:")


@pytest.mark.parametrize("image", IMAGES)
def test_images_have_no_build_tools(image: str) -> None:
    stages: list[Stage] = lineage(STAGES, image)
    assert [stage.name for stage in stages] == ["runtime", image]
    ran = " ".join(text for stage in stages for text in stage.all("RUN"))
    assert not re.search(r"\b(gcc|build-essential|make|npm|docker/install|pip install)\b", ran)
    taken = {origin for stage in stages for origin, _, _ in stage.copies() if origin}
    assert taken == {f"{image}-files"}


@pytest.mark.large
def test_the_api_is_installed_as_its_image_does_it(clean: Path, wheels: Path, tmp_path: Path) -> None:
    run(clean, "docker/install", str(tmp_path / "venv"), str(wheels), "pock-server")
    programs = tmp_path / "venv" / "bin"
    assert not (programs / "pip").exists()
    listed = run(tmp_path, str(programs / "pock-server"), "openapi")
    assert '"openapi"' in listed[:100]
    lock = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (clean / "requirements/lock.txt").read_text().split()
    }
    code = "from importlib.metadata import distributions as d; print(*(x.metadata['Name'] for x in d()))"
    installed = {name.lower().replace("_", "-") for name in run(tmp_path, str(programs / "python"), "-c", code).split()}
    assert installed - lock == {"pock-server"}, "what is installed and not in requirements/lock.txt"
    assert "pockengine" not in installed


def test_the_agent_is_installed_as_its_image_does_it(clean: Path, wheels: Path, tmp_path: Path) -> None:
    run(clean, "docker/install", str(tmp_path / "venv"), str(wheels), "pock-agent")
    assert run(tmp_path, str(tmp_path / "venv" / "bin" / "pock-agent"), "--version").startswith("pock-agent ")


@pytest.mark.parametrize("image", IMAGES)
def test_what_an_image_installs_is_in_the_lock(image: str) -> None:
    stage = STAGES[f"{image}-files"]
    wanted = [text.split()[-1].strip("'") for text in stage.all("RUN") if text.startswith("docker/install")]
    lock = {line.partition("==")[0] for line in (ROOT / "requirements" / "lock.txt").read_text().split()}
    ours = {"pockengine", "pock-server", "pock-agent"}
    needed = closure(wanted)
    assert len(needed) > 2
    assert needed - {canonicalize_name(name) for name in lock} <= ours


def test_the_worker_has_nvidias_compiler_where_that_is_wanted() -> None:
    files = STAGES["worker-files"]
    assert files.all("ARG")[0] == 'COMPILERS=""'
    assert [text for text in files.all("RUN") if "docker/install" in text and " ${COMPILERS} " in text]
    pins = re.findall(r"^([\w-]+)==[\d.]+$", (ROOT / "requirements" / "cuda.txt").read_text(), re.MULTILINE)
    assert pins == [nvrtc.PACKAGE]
    assert "requirements/cuda.txt" in context_files()
    assert (ROOT / "requirements" / "dev.txt").read_text().count("\n-r cuda.txt\n") == 1


def closure(wanted: list[str]) -> set[str]:
    """The names of everything that requirements pull in, as the installed distributions state it."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in wanted]
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        found.add(canonicalize_name(requirement.name))
        for text in metadata.requires(requirement.name) or []:
            needed = Requirement(text)
            extras = [{"extra": extra} for extra in ("", *requirement.extras)]
            if needed.marker is None or any(needed.marker.evaluate(extra) for extra in extras):
                waiting.append(needed)
    return found


def test_the_health_check_says_what_it_sees() -> None:
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    check = [sys.executable, str(ROOT / "docker" / "healthy")]
    try:
        assert subprocess.run([*check, f"{address}/healthz"], capture_output=True, timeout=30).returncode == 0
        assert subprocess.run([*check, f"{address}/readyz"], capture_output=True, timeout=30).returncode == 1
    finally:
        server.shutdown()
        server.server_close()
    gone = subprocess.run([*check, f"{address}/healthz"], capture_output=True, text=True, timeout=30)
    assert gone.returncode == 1 and "Connection refused" in gone.stderr
    assert "Traceback" not in gone.stderr
