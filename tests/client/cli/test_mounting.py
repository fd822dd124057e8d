"""`pock` has the commands of pock-client; its own win where names clash, and load nothing of it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from pockengine.cli import main
from pockengine.cli.mounting import runs_here
from tests.client.cli.conftest import Person, Said

ROOT = Path(__file__).parents[3]


@pytest.fixture
def pock(capsys, monkeypatch):
    """The compiler's command, in this process, which goes by that name however pytest was started."""
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None, raising=False)

    def run(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["pock", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Said(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def alone(monkeypatch) -> None:
    """A machine without pock-client."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "pock_client"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pock_client", None)


def test_the_help_has_two_groups(pock) -> None:
    here, service = pock("--help").out.split("On this machine:")[1].split("On a service:")
    names = {line.split()[0] for line in service.splitlines() if line.startswith("  ")}
    assert {"compile", "check", "run", "targets"} <= {line.split()[0] for line in here.splitlines() if line.strip()}
    assert {"login", "push", "build", "run", "compare"} <= names and "targets" not in names


def test_the_services_commands_work_and_fail_alike(person: Person, pock) -> None:
    assert json.loads(pock("whoami", "--json").out)["workspace"]["name"] == person.workspace
    said = pock("logs", "nothing")
    assert (said.status, said.out) == (1, "") and said.err.startswith("pock: no build is called 'nothing'")
    assert pock("logs").status == 2
    said = pock("run", "nothing", "--on", "x", "--data", "y")
    assert said.status == 1 and "no device matches 'x'" in said.err
    assert "--save-weights" in pock("run", "net", "--help").out


def test_an_artifact_is_run_here(pock, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain").write_text("no artifact")
    for words in (("nowhere.pock", "train"), ("--json", "nowhere.pock", "train"), ("plain", "train")):
        said = pock("run", *words)
        assert said.status == 2 and words[-2] in said.err, words
    assert "Run an artifact's program" in pock("run", "--help").out
    assert (
        not runs_here(["plain", "--on", "x"])
        and not runs_here(["--on", "x", "net"])
        and not runs_here(["net", "train"])
    )


def test_an_unknown_command_names_the_nearest_of_both_kinds(pock) -> None:
    assert "did you mean 'check'" in pock("chekc").err
    said = pock("whoam")
    assert said.status == 2 and "there is no command 'whoam' (did you mean 'whoami'?)" in said.err


@pytest.mark.usefixtures("alone")
def test_without_the_client_it_says_what_to_install(pock) -> None:
    install = "pip install pock-client"
    for words in (("login", "http://x"), ("run", "net", "--on", "x"), ("chekc",)):
        said = pock(*words)
        assert said.status == 2 and install in said.err, words
    said = pock("--help")
    assert said.status == 0 and install in " ".join(said.out.split()) and "compile" in said.out
    assert pock("targets").status == 0


def test_nothing_of_the_client_is_loaded_for_a_command_of_this_machine() -> None:
    program = "import sys; sys.argv = ['pock', 'targets']\nfrom pockengine.cli import main\ntry: main()\n"
    program += (
        "except SystemExit: pass\nfinally: print([m for m in sys.modules if m.startswith(('pock_client.', 'httpx'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", ["pock", "pock-client"])
def test_bash_completes_commands(name: str, tmp_path: Path) -> None:
    package = {"pock": "pockengine.cli", "pock-client": "pock_client.cli"}[name]
    script = tmp_path / name
    script.write_text(f"#!{sys.executable}\nfrom {package} import main\nmain()\n")
    script.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    function = f"_{name.replace('-', '_')}_completion"
    session = f"""
        eval "$({name} --show-completion bash)"
        COMP_WORDS=({name} who); COMP_CWORD=1; {function} {name}; echo "${{COMPREPLY[*]}}"
        COMP_WORDS=({name} run net --eval-d); COMP_CWORD=3; {function} {name}; echo "${{COMPREPLY[*]}}"
    """
    done = subprocess.run(["bash", "-euc", session], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["whoami", "--eval-data"], done.stderr


def test_on_a_terminal_there_are_bars_and_no_lines(person: Person) -> None:
    words = ["build", str(person.model("bars [bold]")), "--recipe", str(person.recipe()), "--target", "host"]
    command = [sys.executable, "-m", "pock_client.cli", *words]
    ours, theirs = pty.openpty()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, cwd=ROOT, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 1 << 20).decode(errors="replace")  # a terminal keeps 4,095 bytes, and may cut a bar in two
    os.close(ours)
    assert done.returncode == 0 and b"succeeded" in done.stdout
    assert "bars [bold] for host" in shown and "bars [bold] for host: " not in shown
