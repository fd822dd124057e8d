"""What people change about releases of the agent and rollouts, for the test of the audit log."""

from collections.abc import Callable
from typing import Any

from tests.server.harness import Person, Server
from tests.server.updating.agent_files import agent_file, facts_of_agent, released

Act = Callable[[], Any]


def release(server: Server, person: Person) -> Act:
    order = released(server, person, agent_file("0.2.0"))
    return lambda: person.post("/agent-releases", order)


def forget_release(server: Server, person: Person) -> Act:
    made = release(server, person)().json()
    return lambda: person.call("DELETE", f"/agent-releases/{made['id']}")


def rollout(server: Server, person: Person) -> Act:
    made = release(server, person)().json()
    device = server.device(person, facts_of_agent("0.1.0"))
    return lambda: person.post("/rollouts", {"release_id": made["id"], "on": f"id={device.id}"})


def changed(*verbs: str) -> Callable[[Server, Person], Act]:
    """The last of these, after the others."""

    def prepare(server: Server, person: Person) -> Act:
        path = f"/rollouts/{rollout(server, person)().json()['id']}"
        for verb in verbs[:-1]:
            assert person.post(f"{path}/{verb}").status_code == 200
        return lambda: person.post(f"{path}/{verbs[-1]}")

    return prepare


UPDATING: dict[tuple[str, str], tuple[Callable[[Server, Person], Act], str]] = {
    ("POST", "/agent-releases"): (release, "agent_release.create"),
    ("DELETE", "/agent-releases/{release_id}"): (forget_release, "agent_release.delete"),
    ("POST", "/rollouts"): (rollout, "rollout.create"),
    ("POST", "/rollouts/{rollout_id}/pause"): (changed("pause"), "rollout.pause"),
    ("POST", "/rollouts/{rollout_id}/resume"): (changed("pause", "resume"), "rollout.resume"),
    ("POST", "/rollouts/{rollout_id}/cancel"): (changed("cancel"), "rollout.cancel"),
    ("POST", "/rollouts/{rollout_id}/roll-back"): (changed("roll-back"), "rollout.roll_back"),
}
