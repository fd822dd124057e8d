"""A setting that cannot be used ends a command with status 2 and one sentence that names it, and never with a trace."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from demo.processes import free_port
from pock_server.blobs.faults import StoreFailed
from pock_server.blobs.opening import open_store
from pock_server.db.engine import database_url, make_engine
from pock_server.migrations.runner import upgrade
from pock_server.settings import Settings
from tests.server.databases import PostgresDatabases
from tests.server.operating.commands import run_command
from tests.server.redis_servers import running_redis
from tests.server.stores import S3Server

Told = tuple[dict[str, str], str]
Serve = Callable[..., subprocess.CompletedProcess[str]]
_EMPTY = {"POCK_SANDBOX": "off", "POCK_RUNNER": "none"}


def settings_alone(tmp_path: Path, settings: dict[str, str]) -> dict[str, str]:
    """The environment of a command that has these settings and no others."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("POCK_", "AWS_"))}
    return {**plain, **_EMPTY, "POCK_DATA_DIR": str(tmp_path / "data"), **settings}


@pytest.fixture
def run(tmp_path: Path) -> Serve:
    """Runs a command with these settings alone; it has to end by itself."""

    def one(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return run_command(arguments, settings_alone(tmp_path, settings), Path(tempfile.mkdtemp(dir=tmp_path)))

    return one


@pytest.fixture
def start(tmp_path: Path) -> Serve:
    """The same in a fresh Python, which imports a `sitecustomize.py` of the test's folder."""

    def one(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = settings_alone(tmp_path, {"PYTHONPATH": path, **settings})
        command = [sys.executable, "-m", "pock_server.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)

    return one


def refused(done: subprocess.CompletedProcess[str], *said: str) -> None:
    """One sentence, and the status of a refusal."""
    assert done.returncode == 2, done.stderr[-1000:]
    last = done.stderr.splitlines()[-1]
    assert last.startswith("pock-server: "), last[-1000:]
    assert all(part in last for part in said), last
    assert "Traceback" not in done.stderr and "open-sesame" not in done.stderr


def together(run: Serve, cases: list[Told], command: tuple[str, ...] = ("serve", "--port", "0")) -> None:
    """Two at a time."""
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda case: run(*command, **case[0]), cases))
    for (settings, said), done in zip(cases, results, strict=True):
        refused(done, *said.split(" … "))
        assert settings


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A file where a folder should be."""
    path = tmp_path / "file"
    path.write_text("nothing")
    yield path


def test_addresses_that_are_none_are_refused(run: Serve) -> None:
    together(
        run,
        [
            ({"POCK_DATABASE_URL": "open-sesame"}, "POCK_DATABASE_URL names no database"),
            ({"POCK_DATABASE_URL": "mysql://u:open-sesame@h/x"}, "POCK_DATABASE_URL names no database"),
            ({"POCK_DATABASE_URL": "postgresql://u:p@h:open-sesame/x"}, "POCK_DATABASE_URL names no database"),
            ({"POCK_DATABASE_URL": "sqlite://"}, "POCK_DATABASE_URL names no database"),
            ({"POCK_OTLP_ENDPOINT": "collector:4318"}, "POCK_OTLP_ENDPOINT: this is not an address such as http://"),
            ({"POCK_STORE_URL": "s4://bucket"}, "POCK_STORE_URL … describe no object store … write s3://"),
        ],
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("otlp_endpoint", "http://"),
        ("otlp_endpoint", "http://host:port"),
        ("store_endpoint", "nonsense"),
        ("store_endpoint", "ftp://host"),
        ("broker_url", "redis://:pass/word@host"),
        ("broker_url", "redis://host/database"),
        ("broker_url", "http://host"),
        ("public_url", "https://host/path"),
        ("public_url", "https://[::1"),
    ],
)
def test_forms_of_addresses(name: str, text: str) -> None:
    with pytest.raises(ValueError, match="this is not an address such as") as caught:
        Settings.model_validate({name: text})
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("otlp_endpoint", "https://collector.example/otlp"),
        ("store_endpoint", "http://127.0.0.1:9000/"),
        ("broker_url", "rediss://user:p%40ss@host:6379/0?ssl_cert_reqs=none"),
        ("broker_url", "redis://[::1]:6379"),
        ("public_url", "https://pock.example:8443/"),
    ],
)
def test_forms_of_addresses_that_are_right(name: str, text: str) -> None:
    assert getattr(Settings.model_validate({name: text}), name) == text


@pytest.mark.parametrize("driver", ["postgres", "postgresql", "postgresql+psycopg2", "postgresql+asyncpg"])
def test_whatever_driver_is_named_ours_is_used(driver: str) -> None:
    url = database_url(Settings(database_url=f"{driver}://u:p@h/x"))
    assert url.drivername == "postgresql+psycopg" and url.password == "p"


def test_a_signing_key_that_cannot_be_read_is_refused(run: Serve, tmp_path: Path) -> None:
    (tmp_path / "data" / "keys" / "signing.pem").mkdir(parents=True)
    refused(run("serve", "--port", "0"), "signing.pem cannot be read: Is a directory")


def test_places_that_cannot_be_written_are_refused(run: Serve, file: Path) -> None:
    inside = str(file / "inside")
    builds = {"POCK_RUNNER": "inprocess"}
    together(
        run,
        [
            ({"POCK_DATA_DIR": inside}, f"POCK_DATA_DIR leads to {inside} … Not a directory"),
            ({"POCK_STORE_URL": f"file://{inside}"}, "POCK_STORE_URL … Not a directory"),
            ({"POCK_WRAPPING_KEY_FILE": inside}, f"{inside} cannot be made … POCK_WRAPPING_KEY_FILE"),
            ({"POCK_WRAPPING_KEY_FILE": str(file.parent)}, "wrapping key … cannot be read"),
            ({"POCK_ROOT_KEY_FILE": inside}, f"POCK_ROOT_KEY_FILE leads to {inside}"),
            ({"POCK_WORK_DIR": inside, **builds}, f"POCK_WORK_DIR leads to {inside}"),
            ({"POCK_BUILD_CACHE_DIR": inside, **builds}, f"POCK_BUILD_CACHE_DIR leads to {inside}"),
            ({"POCK_SECRETS_DIR": inside}, f"POCK_SECRETS_DIR is {inside}"),
        ],
    )


def test_a_file_that_is_no_database_is_refused(run: Serve, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "pock.sqlite3").write_bytes(b"no database" * 1000)
    refused(run("serve", "--port", "0"), "the database cannot be used", "POCK_DATA_DIR holds a damaged file")
    refused(run("gc"), "the database cannot be used", "POCK_DATA_DIR holds a damaged file")


def test_a_database_of_a_newer_version_is_refused(run: Serve, tmp_path: Path) -> None:
    engine = make_engine(Settings(data_dir=tmp_path / "data"))
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    refused(run("migrate"), "newer version of the service", "POCK_DATABASE_URL")


def test_ports_in_use_are_refused(run: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused(run("serve", "--port", port), f"port {port}: Address already in use", "--port")
        refused(run("serve", "--port", "0", POCK_METRICS_PORT=port), "Address already in use", "POCK_METRICS_PORT")
    refused(run("serve", "--port", "0", "--host", "ü" * 300), "this is no name of a host", "--host")


def test_without_an_extra_the_sentence_says_what_to_install(start: Serve, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['opentelemetry.sdk'] = None\n")
    done = start("serve", "--port", "0", POCK_OTLP_ENDPOINT="http://127.0.0.1:4318")
    refused(done, "POCK_OTLP_ENDPOINT needs OpenTelemetry: pip install 'pock-server[otel]'")


def test_a_postgresql_that_cannot_be_used_is_refused(
    run: Serve, postgres_databases: PostgresDatabases, tmp_path: Path
) -> None:
    right = make_url(postgres_databases.make(tmp_path))
    nobody = right.set(username="nobody_here", password="open-sesame")
    worker = {"POCK_BROKER_URL": "redis://127.0.0.1:1/0", "POCK_RUNNER": "celery"}

    def told(url: object) -> dict[str, str]:
        return {"POCK_DATABASE_URL": getattr(url, "render_as_string")(hide_password=False)}  # noqa: B009

    away = "postgresql://u:open-sesame@127.0.0.1:1/x"
    together(
        run,
        [
            ({"POCK_DATABASE_URL": away}, "Connection refused … is it up … POCK_DATABASE_URL"),
            (told(right.set(host="nowhere.invalid")), "nowhere.invalid … POCK_DATABASE_URL"),
            (told(right.set(database="not_there")), "does not exist … createdb"),
            (told(nobody), "nobody_here … in POCK_DATABASE_URL"),
            (told(right.set(query={"nonsense": "1"})), "nonsense … what follows the `?`"),
        ],
    )
    together(run, [({"POCK_DATABASE_URL": away, **worker}, "Connection refused … POCK_DATABASE_URL")], ("worker",))


def test_several_processes_whose_metrics_have_no_port_are_refused_as_one_is(
    run: Serve, postgres_databases: PostgresDatabases, tmp_path: Path
) -> None:
    database = make_url(postgres_databases.make(tmp_path)).render_as_string(hide_password=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = {"POCK_METRICS_PORT": port, "POCK_DATABASE_URL": database}
        one = run("serve", "--port", "0", **told)
        several = run("serve", "--port", "0", "--workers", "2", **told)
    refused(one, f"metrics at 127.0.0.1 port {port}: Address already in use", "POCK_METRICS_PORT")
    refused(several, one.stderr.splitlines()[-1])


def test_an_s3_store_that_cannot_be_used_is_refused(run: Serve, s3: S3Server) -> None:
    right = {f"POCK_{name.upper()}": str(value) for name, value in s3.options().items()}
    credentials = "POCK_STORE_ACCESS_KEY and POCK_STORE_SECRET_KEY"
    together(
        run,
        [
            ({**right, "POCK_STORE_URL": "s3://not-there/x"}, "NoSuchBucket; make the bucket … POCK_STORE_URL"),
            ({**right, "POCK_STORE_SECRET_KEY": "open-sesame"}, f"SignatureDoesNotMatch; correct {credentials}"),
            ({**right, "POCK_STORE_ACCESS_KEY": "who"}, credentials),
            (
                {**right, "POCK_STORE_ENDPOINT": f"http://127.0.0.1:{free_port()}"},
                "cannot be used … is it up … POCK_STORE_ENDPOINT",
            ),
        ],
    )


def test_the_readiness_of_a_store_means_its_bucket(s3: S3Server, tmp_path: Path) -> None:
    right = Settings(data_dir=tmp_path, **s3.options())
    open_store(right).check()
    with pytest.raises(StoreFailed, match="404"):
        open_store(right.model_copy(update={"store_url": "s3://not-there/x"})).check()


def test_a_broker_that_refuses_is_refused(run: Serve, postgres_databases: PostgresDatabases, tmp_path: Path) -> None:
    url = postgres_databases.make(tmp_path)
    with running_redis(tmp_path / "redis") as server:
        server.client.config_set("requirepass", "sesame")
        for command in (("serve", "--port", "0"), ("worker",)):
            settings = {"POCK_DATABASE_URL": url, "POCK_RUNNER": "celery"}
            wrong = server.url.replace("redis://", "redis://:open-sesame@")
            refused(run(*command, **settings, POCK_BROKER_URL=wrong), "the broker refuses", "POCK_BROKER_URL")


def test_a_fault_of_ours_keeps_its_trace(start: Serve, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import pock_server.settings as s\ns.Settings.effective_root_key_file=1\n"
    )
    done = start("serve", "--port", "0", POCK_LOG_FORMAT="json")
    assert done.returncode == 1
    assert "Traceback" in json.loads(done.stderr.splitlines()[-1])["trace"]
