"""What docker-compose.yml promises: who is reached from outside, who may do what, which secrets go where."""

import hashlib
from pathlib import Path
from typing import Any

from tests.deploy.containers import make_secrets
from tests.deploy.dockerfile import ROOT


def test_only_the_proxy_is_reached_from_outside(compose: dict[str, Any]) -> None:
    ports = {name: [str(port) for port in service.get("ports", [])] for name, service in compose["services"].items()}
    published = {name for name, found in ports.items() if any(not port.startswith("127.0.0.1:") for port in found)}
    assert published == {"proxy"}
    internal = {name for name, network in compose["networks"].items() if (network or {}).get("internal")}
    for name in ("api", "worker", "migrate", "postgres", "redis", "store", "bucket"):
        assert set(compose["services"][name]["networks"]) <= internal, name
    for network, members in {"broker": {"api", "worker", "redis"}, "front": {"proxy", "api"}}.items():
        assert {name for name, service in compose["services"].items() if network in service["networks"]} == members


def test_every_container_is_confined_and_bounded(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert not service.get("privileged") and set(service.get("cap_add", [])) <= {"NET_BIND_SERVICE"}, name
        assert service["logging"]["options"]["max-size"], name
        assert ":" in service["image"] and not service["image"].endswith(":latest"), name
        once = service["restart"] == "no"
        assert once or service["deploy"]["resources"]["limits"].keys() == {"memory", "cpus"}, name


def test_secrets_are_files_that_each_service_needs(compose: dict[str, Any]) -> None:
    named = {secret["source"] for service in compose["services"].values() for secret in service.get("secrets", [])}
    assert named == set(compose["secrets"])
    for name, service in compose["services"].items():
        shown = " ".join(map(str, service.get("environment", {}).values()))
        assert "://" not in shown.replace("s3://pock", "").replace("http://store:8333", ""), name
    assert [secret["source"] for secret in compose["services"]["migrate"]["secrets"]] == ["pock_database_url"]
    # Whoever breaks out of a build finds a worker, which can sign nothing.
    worker = compose["services"]["worker"]
    assert "wrapping.key" not in {secret["source"] for secret in worker["secrets"]}
    assert [volume.split(":")[0] for volume in worker["volumes"]] == ["worker"]
    for path in compose["secrets"].values():
        assert Path(path["file"]).parent == ROOT / "docker" / "secrets"


def test_what_waits_for_health_has_a_check_to_wait_for(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for needed, how in service.get("depends_on", {}).items():
            other = compose["services"][needed]
            if how["condition"] == "service_healthy":
                assert other.get("healthcheck") or other["image"].startswith("pockengine/")
            else:
                assert other["restart"] == "no"


def test_secrets_are_made_once(tmp_path: Path, compose: dict[str, Any]) -> None:
    folder = make_secrets(tmp_path)
    made = {path.name: path.read_text() for path in folder.iterdir()}
    assert set(compose["secrets"]) <= set(made)
    assert made["postgres_password"] in made["pock_database_url"]
    password = made["pock_broker_url"].split(":")[2].partition("@")[0]
    assert len(password) == 48 and password not in made["redis_users"]
    assert hashlib.sha256(password.encode()).hexdigest() in made["redis_users"]
    assert all(path.stat().st_mode & 0o777 == 0o440 for path in folder.iterdir())
    make_secrets(tmp_path)
    assert {path.name: path.read_text() for path in folder.iterdir()} == made
