"""Every command, for a person and with --json, against a service that listens."""

import json
from pathlib import Path

import pytest

from tests.client.cli.conftest import Person, Pock


def test_pushed_files_are_listed(person: Person, pock: Pock) -> None:
    files = (person.model("my net"), person.dataset(), person.recipe())
    said = pock("push", *files)
    assert (said.status, said.err) == (0, "")
    kinds = [line.split(": ")[1].split(",")[0] for line in said.out.splitlines()]
    assert kinds == ["model my net:v1", "dataset digits:v1", "recipe recipe:v1"]
    assert [one["name"] for one in person.json("models")["items"]] == ["my net"]
    assert [one["samples"] for one in person.json("datasets")["items"]] == [8]
    assert "my net" in pock("models").out and "input f32 [4]" in pock("datasets", "dig*").out
    assert "no models" in pock("models", "other").err and pock("models", "other").out == ""
    assert [one["name"] for one in person.json("recipes")["items"]] == ["recipe"]
    assert "recipe:v1" in pock("recipes").out


def test_a_name_gets_versions_and_each_is_built_and_compared_by_its_own(person: Person, pock: Pock) -> None:
    assert [person.json("push", person.model("net"))["items"][0]["version"] for _ in range(2)] == [1, 1]
    assert person.json("push", person.model("net", b"another network"))["items"][0]["version"] == 2
    pock("push", person.recipe(), "--name", "sparse")
    pock("push", person.dataset())
    builds = []
    for model in ("net:v1", "net"):
        made = person.json("build", model, "--recipe", "sparse", "--target", "host")["builds"]
        builds.append(made[0])
    assert [(one["model"]["version"], one["recipe_version"]["name"]) for one in builds] == [
        (1, "sparse"),
        (2, "sparse"),
    ]
    names = [f"{one['name']}:v{one['version']}" for one in builds]
    with person.device("desk"):
        for name in names:
            assert pock("run", name, "--on", "desk", "--data", "digits:v1", "--steps", "2").status == 0
    assert len(set(names)) == 2 and all(name in pock("runs").out for name in names)
    assert [one["build"] for one in person.json("compare", "net")["runs"]] == [names[1]], "the newest on the device"
    assert person.json("download", names[0], "-o", person.folder / "net.pock")["digest"] == builds[0]["artifact_digest"]
    assert pock("build", "net:v9", "--recipe", "sparse", "--target", "host").status == 1


def test_a_matrix_is_built_and_each_artifact_is_fetched(person: Person, pock: Pock, tmp_path: Path) -> None:
    model, recipe = person.model(), person.recipe()
    made = person.json("build", model, "--recipe", recipe, "--target", "host,raspberry-*")["builds"]
    assert [(one["target"], one["state"]) for one in made] == [("host", "succeeded"), ("raspberry-pi-4", "succeeded")]
    again = person.json("build", "net", "--recipe", recipe, "--target", "host")["builds"]
    assert [one["id"] for one in again] == [made[0]["id"]], "the same request is the same build"
    said = pock("build", model, "--recipe", recipe, "--target", "host")
    assert said.status == 0 and f"download {made[0]['id'].replace('-', '')[-8:]} -o net.pock" in said.err
    for column in ("net", "host", "succeeded", made[0]["artifact_digest"][:12], "5.0 KB"):
        assert column in said.out
    output = tmp_path / "net.pock"
    ambiguous = pock("download", "net", "-o", output)
    assert ambiguous.status == 1 and "host, raspberry-pi-4: say --target" in ambiguous.err and not output.exists()
    fetched = person.json("download", "net", "-o", output, "--target", "raspberry-pi-4")
    assert fetched["digest"] == made[1]["artifact_digest"] and output.stat().st_size == fetched["size"] > 0
    assert "net.pock" in pock("download", made[0]["id"], "-o", output).out


def test_a_failed_build_says_why_and_is_not_taken_for_another(person: Person, pock: Pock) -> None:
    said = pock("build", person.model("fails"), "--recipe", person.recipe(), "--target", "host")
    assert said.status == 3
    assert "fails for host: Operator \\x1b[31mFoo\\x1b[0m is not supported. (3002)" in said.err
    assert "\x1b" not in said.out + said.err
    (build,) = person.json("builds", "--state", "failed")["items"]
    assert build["failure"]["code"] == 3002
    said = pock("run", "fails", "--on", "*", "--data", "x")
    assert said.status == 1 and "no device matches '*'" in said.err


def test_builds_are_listed_by_name_glob_state_and_target(person: Person, pock: Pock) -> None:
    first, second = person.built("net a"), person.built("other", "raspberry-pi-4")
    listed = [one["id"] for one in person.json("builds")["items"]]
    assert listed == [second["id"], first["id"]]
    for words in (("net a",), ("net*",), (first["id"],), (first["id"][-8:],), ("--target", "h*"), ("*a", "nothing")):
        assert [one["id"] for one in person.json("builds", *words)["items"]] == [first["id"]], words
    assert len(person.json("builds", "--limit", "1")["items"]) == 1
    assert "other" in pock("builds").out


def test_a_model_runs_on_every_device_that_matches_with_the_build_for_its_target(person: Person, pock: Pock) -> None:
    person.built("net", "host")
    person.built("net", "raspberry-pi-4")
    pock("push", person.dataset("pets"))
    run = (
        "run",
        "net",
        "--data",
        "pets",
        "--eval-data",
        "pets",
        "--steps",
        "2",
        "--save-weights",
        "--weights-form",
        "safetensors",
    )
    with person.device("kitchen pi", "raspberry-pi-4"), person.device("desk"), person.device("odd", "toaster"):
        said = pock(*run, "--on", "*")
        assert said.status == 0, said.err
        assert "left out odd: nothing is built for its target, toaster" in said.err
        assert "net on desk: succeeded" in said.err, "a line for each change where no terminal is"
        rows = said.out.splitlines()
        assert len(rows) == 3 and all("1 → 0.5" in row and "90.0 %" in row for row in rows[1:])
        made = person.json(*run, "--on", "name=kitchen pi")["runs"]
        assert [(one["device_name"], one["target"], one["state"]) for one in made] == [
            ("kitchen pi", "raspberry-pi-4", "succeeded")
        ]
        assert len(person.json("runs", "net", "--limit", "9")["items"]) == 3
        assert "kitchen pi" in pock("runs", made[0]["id"][-8:]).out
    output = person.folder / "trained.safetensors"
    fetched = person.json("download", made[0]["id"], "-o", output)
    assert output.read_bytes().startswith(b"trained by ") and fetched["size"] == output.stat().st_size


def test_runs_are_compared_with_the_first(person: Person, pock: Pock) -> None:
    person.built()
    pock("push", person.dataset())
    with person.device("quick", ms=2.0), person.device("slow", ms=5.0):
        for name in ("quick", "slow"):
            assert pock("run", "net", "--on", name, "--data", "digits", "--steps", "2").status == 0
    ids = [one["id"] for one in person.json("runs")["items"]][::-1]
    first, second = person.json("compare", *ids)["runs"]
    assert (first["device"], first["step_ms"], first["step_ms_p10"], first["accuracy"]) == ("quick", 2.0, 1.8, 0.9)
    same = dict.fromkeys(("cold_start_ms", "peak_rss_bytes", "planned_bytes"), 1)
    assert second["ratios"] == {"step_ms": 2.5, "joules_per_step": None, **same}
    table = pock("compare", *ids).out
    for text in ("quick", "host", "90.0 %", "2 ms", "1.8 – 2.4", "5 ms (2.50×)", "5.0 MB (1.00×)", "4.0 MB"):
        assert text in table
    assert {one["device"] for one in person.json("compare", "ne*")["runs"]} == {"quick", "slow"}


def test_a_failed_run_is_3_and_a_run_that_is_not_over_5_or_cancelled(person: Person, pock: Pock) -> None:
    person.built()
    pock("push", person.dataset())
    run = ("run", "net", "--data", "digits", "--steps", "2")
    with person.device("bad", fails=True), person.device("endless", stalls=True):
        said = pock(*run, "--on", "bad")
        assert said.status == 3 and "net on bad: Out of \\x1b[31mmemory. (2003)" in said.err
        said = pock(*run, "--on", "endless", "--timeout", "0.2")
        assert said.status == 5 and "the time to wait is over; it goes on; `pock-client logs" in said.err
        assert pock(*run, "--on", "endless", "--timeout", "0", "--json").out == ""
        assert [one["state"] for one in person.json(*run, "--on", "endless", "--no-wait")["runs"]] == ["queued"]
        assert len(person.json("cancel", "net")["items"]) == 3
    said = pock("cancel", "net")
    assert said.status == 1 and "no build or run that is not over is called 'net'" in said.err


def test_a_run_waits_for_its_build_and_says_how_often_to_try_again(person: Person, pock: Pock) -> None:
    pock("push", person.dataset())
    person.json("build", person.model(), "--recipe", person.recipe(), "--target", "host", "--no-wait")
    run = ("run", "net", "--data", "digits", "--steps", "2", "--on", "desk")
    with person.device("desk"):
        (made,) = person.json(*run, "--after", "net", "--retry", "crashed=2", "--retry", "timeout=1")["runs"]
    assert made["state"] == "succeeded" and made["after"]["build_id"] == made["build_id"]
    assert made["retries"] == {"crashed": 2, "timeout": 1}
    (next_one,) = person.json(*run, "--after", made["id"], "--no-wait")["runs"]
    assert next_one["state"] == "waiting" and next_one["after"]["run_id"] == made["id"]
    assert [one["id"] for one in person.json("cancel", next_one["id"])["items"]] == [next_one["id"]]


def test_logs_are_shown_and_followed(person: Person, pock: Pock) -> None:
    build = person.built()
    person.model("fails")
    assert pock("build", person.model("fails"), "--recipe", person.recipe(), "--target", "host").status == 3
    log = pock("logs", "net")
    assert log.status == 0 and "making net\nwith \\x1b]0;title\\x07[bold]brackets[/bold]" in log.out
    assert "making net" in pock("logs", build["id"], "-f").out
    assert pock("logs", "fails", "-f").status == 3
    events = [json.loads(line) for line in pock("logs", build["id"], "-f", "--json").out.splitlines()]
    assert events[-1]["event"] == "state" and events[-1]["state"] == "succeeded"
    pock("push", person.dataset())
    with person.device("desk"):
        (run,) = person.json("run", "net", "--on", "desk", "--data", "digits", "--steps", "2")["runs"]
    assert pock("logs", run["id"]).out.splitlines() == ["step 1: loss 1, 2 ms", "step 2: loss 0.5, 2 ms"]
    assert "step 2: loss 0.5" in pock("logs", run["id"][-8:], "-f").out
    lines = pock("logs", run["id"], "--json").out.splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2]


def test_devices_are_listed_and_let_in(person: Person, pock: Pock) -> None:
    said = pock("enroll-token", "--name", "kitchen pi", "--pool", "kitchen", "--label", "room=attic")
    assert said.status == 0 and said.out.startswith(f"pock-agent enroll {person.service.url} ")
    assert len(said.out.splitlines()) == 1 and "it is shown this once" in said.err
    with person.device("desk"), person.device("pi 4", "raspberry-pi-4"):
        assert {one["name"] for one in person.json("devices")["items"]} == {"desk", "pi 4"}
        assert [one["name"] for one in person.json("devices", "--on", "target=raspberry-*")["items"]] == ["pi 4"]
        assert "pi 4" in pock("devices").out
        assert pock("devices", "--on", "room=cellar").err == "no device matches 'room=cellar'\n"
        bad = pock("devices", "--on", "ram>=lots")
        assert bad.status == 1 and bad.out == "" and "ram is a number of bytes" in bad.err


def test_who_am_i_and_what_is_built_for(person: Person, pock: Pock) -> None:
    said = pock("whoami")
    assert person.service.url in said.out and person.workspace in said.out and person.key not in said.out
    me = person.json("whoami")
    assert me["workspace"]["name"] == person.workspace and me["url"] == person.service.url
    assert [one["name"] for one in person.json("targets")["items"]] == ["host", "raspberry-pi-4"]
    assert "raspberry-pi-4" in pock("targets").out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("push", "net.txt"), "say --as"),
        (("push", "missing.onnx"), "does not exist"),
        (("push", "net.onnx", "net.onnx", "--name", "one"), "2 files cannot have one name"),
        (("build", "net.onnx", "--target", "host"), "--recipe"),
        (("download", "net", "-o", "net"), "say with --as"),
        (("login", "http://127.0.0.1", "--key", "pk_x"), "every user of this machine can see"),
        (("logn",), "login"),
        (("runs", "--limit", "0"), "--limit"),
        (("run", "net", "--on", "*", "--data", "d", "--retry", "luck=1"), "transient, crashed"),
        (("run", "net", "--on", "*", "--data", "d", "--retry", "crashed"), "'crashed' is no CLASS=N"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_2(person: Person, pock: Pock, words: tuple[str, ...], sentence: str, monkeypatch) -> None:
    person.model()
    (person.folder / "net.txt").write_text("x")
    monkeypatch.chdir(person.folder)
    said = pock(*words)
    assert said.status == 2 and sentence in said.err and said.out == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("build", "nothing", "--recipe", "recipe.yaml", "--target", "host"), "there is no model 'nothing'"),
        (("build", "net.onnx", "--recipe", "nowhere.yaml", "--target", "host"), "nowhere.yaml"),
        (("build", "net.onnx", "--recipe", "recipe.yaml", "--target", "toaster"), "no target 'toaster'"),
        (("logs", "nothing"), "no build is called 'nothing'"),
        (("logs", "abcdef12"), "no run is called 'abcdef12'"),
        (("compare", "nothing"), "no run is called 'nothing'"),
        (("download", "nothing", "-o", "x.pock"), "no succeeded build is called 'nothing'"),
        (("download", "nothing", "-o", "x.onnx"), "there is no model 'nothing'"),
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_1(person: Person, pock: Pock, words: tuple[str, ...], sentence: str, monkeypatch) -> None:
    person.model()
    person.recipe()
    monkeypatch.chdir(person.folder)
    said = pock(*words, "--json")
    assert said.status == 1 and sentence in said.err and said.out == ""
    assert said.err.startswith("pock-client: ") and said.err.count("\n") == 1
