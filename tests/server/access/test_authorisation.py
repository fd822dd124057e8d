"""Who may call what: every method of every address with every kind of credential, as the document declares it.

The rows are `CREDENTIALS`, the columns are the document's operations; whoever adds either gets the other's tests.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pock_server.auth.roles import SCOPES_OF, Role
from pock_server.auth.schemas import Scope
from tests.server.federations.federating import trainable
from tests.server.harness import Device, Person, Server, digest_of
from tests.server.updating.agent_files import agent_file, released
from tests.sweeps import some

DAY = 86_400
UNKNOWN = "018f0000-0000-7000-8000-000000000000"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
ENDLESS = frozenset(
    {"stream_run_events", "stream_federation_events", "stream_benchmark_events", "stream_search_events"}
)
"""Answers that go on as long as the run, federation, benchmark or search does."""
SECRET = b"the weights of workspace A"


@dataclass
class World:
    """A workspace with one of everything, another one, and devices of both."""

    server: Server
    owner: Person
    stranger: Person
    device: Device
    neighbour: Device
    foreign: Device
    expired: Person
    revoked: Person
    ids: dict[str, str]

    def path(self, template: str) -> str:
        """The address of the first workspace's own object."""
        return re.sub(
            r"\{(\w+)\}",
            lambda match: {"version": "1", "tag_name": "stable", **self.ids}[match[1]],
            template,
        )

    def body(self, operation: str) -> dict[str, Any]:
        """A request about what the first workspace has; of most calls, an empty one."""
        ids = self.ids
        bodies: dict[str, dict[str, Any]] = {
            "create_model": {"name": "x", "digest": ids["digest"]},
            "create_dataset": {"name": "x", "digest": ids["digest"]},
            "create_build": {"model_id": ids["model_id"], "recipe": {}, "target": "host"},
            "create_search": {"model_id": ids["model_id"], "dataset_id": ids["dataset_id"], "target": "host"},
            "create_run": {
                "build_id": ids["build_id"],
                "device_id": ids["device_id"],
                "dataset_id": ids["dataset_id"],
                "steps": 1,
            },
            "create_schedule": yearly(ids["build_id"]),
            "create_campaign": {
                "name": "x",
                "on": "*",
                "steps": 1,
                "build_ids": [ids["build_id"]],
                "dataset_id": ids["dataset_id"],
            },
            "create_benchmark": {"build_id": ids["build_id"], "device_id": ids["device_id"]},
            "create_federation": {"build_id": ids["build_id"], **ORDER},
            "renew_lease": {"fence": self.device.work["fence"]},
            "post_run_events": {"fence": self.device.work["fence"], "first_seq": 0, "events": []},
            "post_run_result": {"fence": self.device.work["fence"], "state": "failed"},
        }
        return bodies.get(operation, {})


ORDER = {"name": "many", "on": "nobody", "rounds": 1, "devices_per_round": 1, "minimum": 1, "steps": 1, "dataset": "x"}
"""A federation without its build."""


@dataclass(frozen=True)
class Credential:
    """How a request says who sends it; `scopes` are those of a person, None of anything else."""

    name: str
    headers: Callable[[World], dict[str, str]]
    opens: str | None
    """The security scheme that it satisfies."""
    scopes: frozenset[Scope] | None = None
    own: bool = True
    """Whether it belongs to the workspace, and is the device, that the request is about."""


def bearer(find: Callable[[World], str]) -> Callable[[World], dict[str, str]]:
    return lambda world: {"Authorization": f"Bearer {find(world)}"}


def key_with(*scopes: Scope) -> Callable[[World], dict[str, str]]:
    return bearer(lambda world: world.server.person(*scopes).key)


def key_of(role: Role) -> Callable[[World], dict[str, str]]:
    return bearer(lambda world: world.server.member(role, f"the {role} of the matrix").key)


def cookie(world: World, person: Person | None = None) -> dict[str, str]:
    """Of a browser that has just signed in, as our own page sends it."""
    opened = (person or world.owner).post("/session")
    assert opened.status_code == 201, opened.text
    world.server.client.cookies.clear()
    return {"Cookie": opened.headers["set-cookie"].split(";")[0], "Sec-Fetch-Site": "same-origin"}


def ended_cookie(world: World) -> dict[str, str]:
    headers = cookie(world)
    assert world.server.client.delete("/v1/session", headers=headers).status_code == 204
    return headers


CREDENTIALS = [
    Credential("nothing", lambda _: {}, None),
    Credential("garbage", bearer(lambda _: "nonsense"), None),
    Credential("a key of no form", bearer(lambda world: world.owner.key + "0"), None),
    Credential("a wrong secret", bearer(lambda world: world.owner.key[:-4] + "zzzz"), None),
    Credential("basic authentication", lambda world: {"Authorization": f"Basic {world.owner.key}"}, None),
    Credential("an expired key", bearer(lambda world: world.expired.key), None),
    Credential("a revoked key", bearer(lambda world: world.revoked.key), None),
    Credential("an enrolment token", bearer(lambda w: w.owner.post("/enrollment-tokens", {}).json()["token"]), None),
    Credential("a key as a session", bearer(lambda world: "ps" + world.owner.key[2:]), None),
    Credential("a session as a key", bearer(lambda world: "pk" + world.device.token[2:]), None),
    Credential("another workspace's key", bearer(lambda w: w.stranger.key), "apiKey", frozenset(Scope), own=False),
    Credential("every scope", key_with(), "apiKey", frozenset(Scope)),
    *(Credential(f"only {scope}", key_with(scope), "apiKey", frozenset({scope})) for scope in Scope),
    *(Credential(f"the key of one who is {role}", key_of(role), "apiKey", SCOPES_OF[role]) for role in Role),
    Credential("a browser's session", cookie, "browserSession", frozenset(Scope)),
    Credential(
        "another workspace's browser", lambda w: cookie(w, w.stranger), "browserSession", frozenset(Scope), False
    ),
    Credential("an ended session", ended_cookie, None),
    Credential("the device's session", bearer(lambda world: world.device.token), "deviceSession"),
    Credential("another device's session", bearer(lambda w: w.neighbour.token), "deviceSession", own=False),
    Credential("another workspace's device", bearer(lambda w: w.foreign.token), "deviceSession", own=False),
]


@pytest.fixture(scope="module")
def world(shared: Server) -> World:
    """Made once; nobody may change it who is not allowed to."""
    expired, revoked = shared.person(ttl_days=1), shared.person()
    shared.clock.advance(2 * DAY)
    owner, stranger = shared.person(), shared.person(workspace="another")
    admin = shared.person()
    for key in admin.get("/api-keys", params={"limit": 200}).json()["items"]:
        if revoked.key.split("_")[1] == key["id"].replace("-", ""):
            assert admin.call("DELETE", f"/api-keys/{key['id']}").status_code == 204
    device, neighbour, foreign = shared.device(owner), shared.device(owner), shared.device(stranger)
    build = shared.built(owner)
    run = shared.run(owner, device, build["id"]).json()
    device.take_work()
    assert device.post("lease").status_code == 200
    digest = owner.upload(SECRET)
    modern = shared.device(owner, {"features": ["repeats"]})
    benchmark = owner.post("/benchmarks", {"build_id": build["id"], "device_id": modern.id}).json()
    ids = {
        "schedule_id": owner.post("/schedules", yearly(build["id"])).json()["id"],
        "campaign_id": campaigned(shared, owner, build["id"], run["dataset_id"]),
        "model_id": build["model_id"],
        "recipe_id": owner.post("/recipes", {"name": "mine", "text": "batch: 2"}).json()["id"],
        "build_id": build["id"],
        "release_id": owner.post("/agent-releases", released(shared, owner, agent_file("0.2.0"))).json()["id"],
        "dataset_id": run["dataset_id"],
        "device_id": device.id,
        "run_id": run["id"],
        "benchmark_id": benchmark["id"],
        "webhook_id": owner.post("/webhooks", {"url": "https://hook.example/", "events": ["run.failed"]}).json()["id"],
        "federation_id": owner.post("/federations", {"build_id": trainable(shared, owner), **ORDER}).json()["id"],
        "tuning_id": shared.tuning(owner)["id"],
        "digest": digest,
        "upload_id": owner.post("/uploads", {"digest": digest_of(b"more"), "size": 4}).json()["id"],
        "member_id": owner.post("/members", {"name": "somebody", "role": "viewer"}).json()["id"],
        "session_id": owner.post("/session").json()["id"],
        "key_id": owner.get("/api-keys").json()["items"][0]["id"],
    }
    search = {"model_id": ids["model_id"], "dataset_id": ids["dataset_id"], "target": "host"}
    ids["search_id"] = owner.post("/searches", search).json()["id"]
    order = {"release_id": ids["release_id"], "on": f"id={device.id}"}
    ids["rollout_id"] = owner.post("/rollouts", order).json()["id"]
    shared.client.cookies.clear()
    return World(shared, owner, stranger, device, neighbour, foreign, expired, revoked, ids)


def yearly(build_id: str) -> dict[str, Any]:
    """A schedule that is not due for a while."""
    campaign = {"name": "x", "on": "*", "steps": 1, "entry": "bench", "build_ids": [build_id]}
    return {"name": "yearly", "cron": "0 0 1 1 *", "what": {"campaign": campaign}}


def campaigned(server: Server, owner: Person, build_id: str, dataset_id: str) -> str:
    """A campaign that is over, or soon."""
    server.device(owner, {"target": "host"})
    order = {"name": "sweep", "on": "*", "steps": 1, "build_ids": [build_id], "dataset_id": dataset_id}
    made = owner.post("/campaigns", order).json()
    assert owner.post(f"/campaigns/{made['id']}/cancel").status_code == 200
    return str(made["id"])


def operations(server: Server) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and declaration of every call under /v1."""
    for path, declared in server.client.get("/openapi.json").json()["paths"].items():
        for method, operation in declared.items():
            if path.startswith("/v1/"):
                yield method.upper(), path, operation


def allowed_scopes(operation: dict[str, Any], scheme: str) -> list[frozenset[Scope]]:
    """Of each alternative that opens the call with this scheme, the scopes that it needs."""
    alternatives = [entry[scheme] for entry in operation.get("security", []) if scheme in entry]
    return [frozenset(Scope(name) for name in names) for names in alternatives]


def send(world: World, method: str, path: str, operation: dict[str, Any], headers: dict[str, str]) -> Any:
    body = world.body(operation["operationId"]) if method in ("POST", "PATCH") else None
    streams = method == "PUT" or "/uploads/" in path
    content = {"content": b"more"} if streams and method != "HEAD" else {"json": body} if body is not None else {}
    answer = world.server.client.request(method, path, headers={"Upload-Offset": "0", **headers}, **content)
    world.server.client.cookies.clear()
    return answer


def code_of(answer: Any) -> int | None:
    found = answer.headers.get("content-type", "").startswith("application/problem+json") and answer.content
    return int(answer.json()["failure_code"]) if found else None


@pytest.mark.parametrize("credential", some(CREDENTIALS, 3), ids=lambda credential: credential.name)
def test_every_call_with_every_credential(world: World, credential: Credential) -> None:
    headers = credential.headers(world)
    for method, template, operation in operations(world.server):
        schemes = {name for entry in operation.get("security", []) for name in entry}
        if not schemes:
            continue  # strangers may call it; its token or signature is in the body
        refused = credential.opens not in schemes
        lacking = credential.scopes is not None and not any(
            wanted <= credential.scopes for wanted in allowed_scopes(operation, credential.opens or "")
        )
        if operation["operationId"] == "get_work" and credential.own and not refused:
            continue  # the device would take its run from itself
        # What is allowed is tried on what nobody has, lest it change the world; reading changes nothing.
        mine = refused or lacking or not credential.own
        mine |= method == "GET" and operation["operationId"] not in ENDLESS
        path = world.path(template) if mine else re.sub(r"\{digest\}", "0" * 64, template)
        path = re.sub(r"\{\w+\}", UNKNOWN, path)
        answer = send(world, method, path, operation, headers)
        if operation["operationId"] == "sign_out" and answer.status_code == 204:
            headers = credential.headers(world)
        where = (method, template, answer.status_code, answer.text[:300])
        assert answer.status_code < 500, where
        if refused:
            assert answer.status_code == 401, where
            assert method == "HEAD" or code_of(answer) in (1001, 1002, 1003, 1023), where
        elif lacking:
            assert answer.status_code == 403, where
        else:
            assert answer.status_code not in (401, 403, 405), where
            assert credential.own or is_foreign(world, template, operation, answer), where
    assert world.owner.get(f"/runs/{world.ids['run_id']}").json()["state"] == "running"
    assert world.owner.get(f"/devices/{world.device.id}").json()["state"] in ("busy", "online", "offline")
    assert world.device.post("lease").json()["cancel"] is False
    assert world.owner.call("HEAD", f"/uploads/{world.ids['upload_id']}").headers["upload-offset"] == "0"


def is_foreign(world: World, template: str, operation: dict[str, Any], answer: Any) -> bool:
    """Whether somebody else's answer tells nothing of the world, and did nothing in it."""
    about_the_world = "{" in template or world.body(operation["operationId"])
    if about_the_world and answer.status_code not in (404, 409, 422):
        return False
    request = f"{answer.request.url} {json.dumps(world.body(operation['operationId']))}"
    asked = set(re.findall(r"[0-9a-f]{64}|[0-9a-f-]{36}", request))
    told = {value for value in world.ids.values() if value in answer.text}
    return not (told - asked) and SECRET not in answer.content


def test_undeclared_methods(world: World) -> None:
    declared: dict[str, set[str]] = {}
    for method, template, _ in operations(world.server):
        declared.setdefault(template, set()).add(method)
    for template, methods in declared.items():
        path = world.path(template)
        device = template.startswith("/v1/agent/")
        headers = {"Authorization": f"Bearer {world.device.token if device else world.owner.key}"}
        for method in METHODS:
            if method in methods:
                continue
            answer = world.server.client.request(method, path, headers=headers)
            assert answer.status_code == 405, (method, template, answer.status_code)
            assert set(answer.headers["allow"].split(", ")) == methods, (method, template, answer.headers["allow"])
            nobody = world.server.client.request(method, path)
            assert nobody.status_code in (401, 405), (method, template, nobody.status_code)


VARIANTS: dict[str, Callable[[str], str]] = {
    "a slash at the end": lambda path: path + "/",
    "an encoded slash at the end": lambda path: path + "%2F",
    "encoded slashes": lambda path: "/" + path[1:].replace("/", "%2F"),
    "an encoded first slash": lambda path: path.replace("/v1/", "/v1%2f", 1),
    "two slashes": lambda path: path.replace("/v1/", "/v1//", 1),
    "two slashes in front": lambda path: "/" + path,
    "a dot": lambda path: path.replace("/v1/", "/v1/./", 1),
    "two dots": lambda path: path.replace("/v1/", "/v1/x/../", 1),
    "encoded dots": lambda path: path.replace("/v1/", "/v1/%2e%2e/v1/", 1),
    "capitals": lambda path: path.replace("/v1/", "/V1/", 1),
    "an encoded letter": lambda path: path.replace("/v1/", "/%76%31/", 1),
    "twice encoded": lambda path: path.replace("/v1/", "/%2576%2531/", 1),
    "a parameter": lambda path: path + ";x=1",
    "a NUL": lambda path: path + "%00",
    "half of a character": lambda path: path + "%ed%a0%80",
    "a query": lambda path: path + "?authorization=Bearer",
}


@pytest.mark.parametrize("variant", some(VARIANTS.values(), 2), ids=some(VARIANTS, 2))
def test_no_other_spelling_of_an_address_gets_around_the_credential(
    world: World, variant: Callable[[str], str]
) -> None:
    for method, template, operation in operations(world.server):
        if not operation.get("security"):
            continue
        answer = world.server.client.request(method, variant(world.path(template)), headers={"Upload-Offset": "0"})
        where = (method, template, answer.status_code, answer.text[:200])
        is_page = answer.headers.get("content-type", "").startswith("text/html")  # no call of the interface answers one
        assert answer.status_code in (401, 404, 405) or is_page, where
        assert SECRET not in answer.content and "items" not in answer.text, where
