"""The whole service is run as docker-compose.yml says, with TLS in front. `test_compose_file` reads what it promises.

SeaweedFS is not installable here: the S3 server of the service's tests stands in for the services `store` and `bucket`.
The compiler is a fake, the sandbox around it is not.
"""

import hashlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from demo.processes import program
from pock_client import Client
from tests.agent import fake_model
from tests.deploy.containers import Container, Machine, children, make_secrets, wait_for
from tests.deploy.dockerfile import ROOT
from tests.server.databases import find_postgres
from tests.server.stores import S3Server, has_swift, running_s3

OURS = ("api", "worker", "migrate")
STRANGER = "127.9.9.9"
"""The address that requests come from."""


@dataclass
class Deployment:
    """The running service."""

    machine: Machine
    proxy: Container
    apis: list[Container]
    workers: list[Container]
    postgres: Container
    redis: Container
    key: str = ""

    @property
    def url(self) -> str:
        """Where people and devices reach it."""
        return f"https://{self.proxy.address}:8443"

    @property
    def authority(self) -> Path:
        """The certificate that its name is vouched for by."""
        return self.machine.volume("proxy") / "caddy/pki/authorities/local/root.crt"

    def http(self, **options: Any) -> httpx.Client:
        """A browser, or a script."""
        return httpx.Client(base_url=self.url, transport=self._wire(), trust_env=False, timeout=60, **options)

    def client(self) -> Client:
        """The same with an API key."""
        return Client(self.url, self.key, transport=self._wire())

    def _wire(self) -> httpx.HTTPTransport:
        trusted = ssl.create_default_context(cafile=str(self.authority))
        return httpx.HTTPTransport(verify=trusted, local_address=STRANGER)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server in the place of `store`."""
    if not has_swift():
        pytest.skip("OpenStack Swift is not installed (.ci/run names its packages)")
    with running_s3(tmp_path_factory.mktemp("s3") / "swift") as server:
        yield server


@pytest.fixture(scope="module")
def machine(compose: dict[str, Any], s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Where the services run, with what is other than the file says."""
    lacking = [name for name in ("bwrap", "caddy", "redis-server") if shutil.which(name) is None]
    if lacking or find_postgres() is None:
        pytest.skip(f"not installed: {', '.join(lacking) or 'postgresql'} (.ci/run names the packages)")
    folder = tmp_path_factory.mktemp("deployment")
    secrets = make_secrets(folder)
    stored = s3.options()
    for name in ("store_access_key", "store_secret_key"):
        (secrets / f"pock_{name}").chmod(0o600)
        (secrets / f"pock_{name}").write_text(stored[name])
    ours = {
        "POCK_STORE_URL": stored["store_url"],
        "POCK_STORE_ENDPOINT": stored["store_endpoint"],
        "POCK_TRUSTED_PROXIES": "127.0.0.0/8",  # the network `front`, here
        "POCK_BUILD_LEASE_SECONDS": "3",  # what a killed worker had is given to another one after a minute
        "POCK_SWEEP_SECONDS": "1",
        "POCK_WORKER_COMMAND": json.dumps([sys.executable, "-m", "tests.deploy.slow_worker"]),
        "POCK_SANDBOX_READABLE": json.dumps([str(ROOT)]),
    }
    machine = Machine(compose, folder, secrets, dict.fromkeys(OURS, ours))
    proxy = machine.addresses["proxy"][0]
    machine.variables["proxy"] = {"POCK_SITE": proxy, "POCK_BIND": proxy}
    yield machine
    machine.end()
    for log in sorted(folder.glob("*.log")):
        print(f"== {log.name}\n{log.read_text(errors='replace')[-4000:]}")  # shown where a test failed


@pytest.fixture(scope="module")
def deployment(machine: Machine) -> Deployment:
    """Everything started in the order that the file asks for, each as soon as what it needs is healthy."""
    asked = machine.environment("postgres")
    cluster = ["-D", asked["PGDATA"], "-U", asked["POSTGRES_USER"], "--pwfile", asked["POSTGRES_PASSWORD_FILE"]]
    machine.execute("postgres", "initdb", *cluster, "--no-sync", *asked["POSTGRES_INITDB_ARGS"].split())
    create = f"echo 'CREATE DATABASE {asked['POSTGRES_DB']}' | postgres --single -D {asked['PGDATA']} postgres"
    machine.execute("postgres", "sh", "-c", create)
    postgres = start(machine, "postgres")
    machine.execute("migrate", *machine.command("migrate", machine.addresses["migrate"][0]))
    apis = [machine.start("api", copy) for copy in range(len(machine.addresses["api"]))]
    redis = start(machine, "redis")
    workers = [machine.start("worker", copy) for copy in range(len(machine.addresses["worker"]))]
    for name, containers in {"api": apis, "worker": workers}.items():
        for container in containers:
            await_health(machine, container, name)
    deployment = Deployment(machine, start(machine, "proxy"), apis, workers, postgres, redis)
    wait_for(deployment.authority.exists, "the proxy's certificate")
    deployment.key = machine.execute("api", "pock-server", "create-key").split()[-1]
    return deployment


def start(machine: Machine, name: str) -> Container:
    """A service that is one container, once it is healthy."""
    container = machine.start(name)
    await_health(machine, container, name)
    return container


def await_health(machine: Machine, container: Container, name: str) -> None:
    """Returns when the service's own health check says so."""
    wait_for(lambda: machine.healthy(container, name) or container.process.poll() is not None, f"{name}'s health")
    assert container.process.poll() is None, container.said()


@dataclass
class Listener:
    """Follows a stream of events from another thread, and comes back when it breaks off."""

    deployment: Deployment
    path: str
    events: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def states(self) -> list[str]:
        """The states that were told, in order."""
        return [data["state"] for kind, data in list(self.events) if kind == "state"]

    def _follow(self) -> None:
        last = ""
        with self.deployment.http(headers={"Authorization": f"Bearer {self.deployment.key}"}) as http:
            while not self.stopped.is_set() and "succeeded" not in self.states():
                with (
                    suppress(httpx.HTTPError),
                    http.stream(
                        "GET", f"/v1{self.path}/events", headers={"Last-Event-ID": last} if last else {}
                    ) as answer,
                ):
                    kind = ""
                    for line in answer.iter_lines():
                        name, _, value = line.partition(": ")
                        if name == "id":
                            last = value
                        elif name == "event":
                            kind = value
                        elif name == "data":
                            self.events.append((kind, json.loads(value)))
                self.stopped.wait(0.2)


def builder(workers: list[Container]) -> Container | None:
    """The worker that has a build's process."""
    for worker in workers:
        if any("slow_worker build" in line for line in descendants(worker.init)):
            return worker
    return None


def descendants(process: int) -> list[str]:
    """The command lines of all processes below one."""
    found = []
    with suppress(OSError):
        for child in children(process):
            found += [Path(f"/proc/{child}/cmdline").read_text().replace("\0", " "), *descendants(child)]
    return found


def test_the_proxy_lets_in_what_it_should(deployment: Deployment) -> None:
    with deployment.http() as http:
        page = http.get("/")
        assert page.status_code == 200 and "max-age" in page.headers["Strict-Transport-Security"]
        assert http.get("/healthz").status_code == 200
        assert http.get("/metrics").status_code == http.get("/metrics/").status_code == 404
        refused = http.get("/v1/models", headers={"X-Forwarded-For": "10.1.2.3"})
        assert refused.status_code == 401 and refused.headers["content-type"] == "application/problem+json"
        assert http.post("/v1/models", content=b"x" * (12 << 20)).status_code == 413
        assert http.get("/v1/models", headers={"X-Long": "x" * 30_000}).status_code == 431
    plain = httpx.get(f"http://{deployment.proxy.address}:8080/", trust_env=False)
    assert plain.status_code == 308 and plain.headers["Location"].startswith("https://")
    said = "".join(api.said() for api in deployment.apis)
    assert STRANGER in said and "10.1.2.3" not in said


def test_browsers_speak_http_2_with_the_proxy(deployment: Deployment) -> None:
    """There a tab's stream takes no connection from the others."""
    wanted = ssl.create_default_context(cafile=str(deployment.authority))
    wanted.set_alpn_protocols(["h2", "http/1.1"])
    address = deployment.proxy.address
    raw = socket.create_connection((address, 8443), 60, (STRANGER, 0))
    with wanted.wrap_socket(raw, server_hostname=address) as line:
        assert line.selected_alpn_protocol() == "h2"


def test_from_a_model_to_trained_weights_while_processes_are_killed(deployment: Deployment, tmp_path: Path) -> None:
    machine = deployment.machine
    with deployment.client() as client:
        wait_for(lambda: targets(deployment), "a worker to describe the compiler")
        (tmp_path / "model").write_bytes(b"a model")
        model = client.models.push(tmp_path / "model", name="net")
        build = client.builds.create(model=model, recipe={"batch": 2}, target="host")
        heard = Listener(deployment, f"/builds/{build.id}")
        wait_for(lambda: builder(deployment.workers), "a worker to build")
        killed = builder(deployment.workers)
        assert killed is not None
        copy = deployment.workers.index(killed)
        killed.kill()
        client.builds.wait(build.id, timeout=120)
        deployment.workers[copy] = machine.start("worker", copy)

        token = client.enrolment_tokens.create(name="device").token
        state, trusting = str(tmp_path / "device"), {**os.environ, "SSL_CERT_FILE": str(deployment.authority)}
        enroll = [program("pock-agent"), "enroll", deployment.url, token, "--target", "host", "--state-dir", state]
        subprocess.run(enroll, env=trusting, check=True, capture_output=True, timeout=60)
        held = tmp_path / "held"
        held.touch()
        tmp_path.chmod(0o755)
        (tmp_path / "data").write_bytes(fake_model.dataset({"train": {"hang_after": 3, "hang_at": str(held)}}))
        data = client.datasets.push(tmp_path / "data")
        run = client.runs.create(
            build=build,
            device="device",
            dataset=data,
            eval_dataset=data,
            steps=5,
            save_weights=True,
            weights_form="safetensors",  # the fake's are no weights, of which nothing can be left out
        )
        watched = Listener(deployment, f"/runs/{run.id}")
        with (tmp_path / "agent.log").open("wb") as log:
            agent = subprocess.Popen(
                [program("pock-agent"), "run", "--state-dir", state], env=trusting, stdout=log, stderr=log
            )
        try:
            wait_for(lambda: any(kind == "steps" for kind, _ in watched.events), "steps")
            deployment.apis[0].kill()
            held.unlink()
            done = client.runs.wait(run.id, timeout=120)
            deployment.apis[0] = machine.start("api", 0)
            wait_for(lambda: "succeeded" in watched.states() and "succeeded" in heard.states(), "the streams' end")
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait(timeout=30)
        client.runs.weights(done, tmp_path / "weights")
    for listener in (heard, watched):
        listener.stopped.set()
    assert hashlib.sha256((tmp_path / "weights").read_bytes()).hexdigest() == done.weights_digest
    assert done.report is not None and done.report.train is not None
    assert done.report.train.loss == [1 / step for step in range(1, 6)]
    assert heard.states().count("running") == 2, "killed with its worker, built by the other one"
    for worker in deployment.workers:
        assert "builds run in a sandbox: bubblewrap" in worker.said()


def test_redis_obeys_api_and_worker_alone(deployment: Deployment) -> None:
    machine = deployment.machine
    mine = (machine.secrets / "pock_broker_url").read_text().strip()
    stranger = f"redis://{mine.partition('@')[2]}"
    code = "import redis, sys\ntry: print(redis.Redis.from_url(sys.argv[1]).execute_command(*sys.argv[2:]))\n"
    code += "except redis.RedisError as error: print(type(error).__name__)"

    def said(who: str, *words: str) -> str:
        return machine.execute("api", "python", "-c", code, who, *words).strip()

    words: tuple[str, ...]
    for words in (("GET", "x"), ("FLUSHALL",), ("CONFIG", "GET", "dir")):
        assert said(stranger, *words) == "AuthenticationError", words
    for words in (("FLUSHALL",), ("CONFIG", "SET", "dir", "/"), ("REPLICAOF", "127.0.0.1", "1"), ("SHUTDOWN",)):
        assert said(mine, *words) == "NoPermissionError", words
    assert said(mine, "DBSIZE").isdigit()
    found = machine.execute("api", "pock-server", "doctor").splitlines()
    assert any(line.split() == ["ok", "workers", "2", "answer"] for line in found), found


def test_the_worker_serves_health_and_metrics_and_no_api(deployment: Deployment) -> None:
    for worker in deployment.workers:
        metrics = httpx.get(f"http://{worker.address}:8080/metrics", trust_env=False)
        assert metrics.status_code == 200 and "pock_build_stage_seconds" in metrics.text
        assert httpx.get(f"http://{worker.address}:8080/v1/models", trust_env=False).text.startswith("# HELP")
        (process,) = children(worker.init)
        os.kill(process, signal.SIGSTOP)
        assert not deployment.machine.healthy(worker, "worker")
        os.kill(process, signal.SIGCONT)
        await_health(deployment.machine, worker, "worker")


def test_the_worker_may_make_namespaces_and_nothing_dangerous(machine: Machine) -> None:
    code = "import ctypes; c = ctypes.CDLL(None, use_errno=True); print(c.unshare(0x10000000), c.ptrace(0, 0, 0, 0))"
    assert machine.execute("worker", "python", "-c", code).split() == ["0", "-1"]
    outside = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert outside.stdout.split()[1] == "0", "the test cannot tell"


def test_everything_stops_in_order(deployment: Deployment) -> None:
    await_health(deployment.machine, deployment.apis[0], "api")
    names = {"proxy": [deployment.proxy], "worker": deployment.workers, "api": deployment.apis}
    names |= {"redis": [deployment.redis], "postgres": [deployment.postgres]}
    for name, containers in names.items():
        service = deployment.machine.service(name)
        how = signal.Signals[service.get("stop_signal", "SIGTERM")]
        grace = float(str(service.get("stop_grace_period", "10s")).rstrip("s"))
        for container in containers:
            assert container.process.poll() is None, f"{name} had ended: {container.said()[-2000:]}"
            assert container.stop(how, grace) in (0, 128 + how), container.said()[-2000:]
            assert "Traceback" not in container.said(), container.said()


def targets(deployment: Deployment) -> bool:
    """Whether the API knows what can be built for."""
    with deployment.http(headers={"Authorization": f"Bearer {deployment.key}"}) as http:
        return http.get("/v1/targets").status_code == 200
