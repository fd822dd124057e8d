"""Builds of all workspaces wait in one queue: workspaces take turns, and positions say what will happen."""

import pytest

from pock_server.runner.claims import Broken, claim_next, finish
from tests.server.conftest import ServerFactory
from tests.server.fleet.test_races import ROUNDS, together
from tests.server.harness import Person, Server, assert_problem

_ENOUGH = Broken(3002, "Enough.")


def ask(person: Person, count: int, **changes: object) -> list[str]:
    """Ids of so many different builds."""
    model = person.model()["id"]
    recipes = [{"batch": n, "note": str(changes)} for n in range(1, count + 1)]
    answers = [person.build(model_id=model, recipe=recipe, **changes) for recipe in recipes]
    assert {answer.status_code for answer in answers} == {202}
    return [answer.json()["id"] for answer in answers]


def begin(server: Server) -> str | None:
    """One runner begins the next build, and ends it a second later."""
    claim = claim_next(server.services)
    if claim is None:
        return None
    server.clock.advance(1)
    finish(server.services, claim, _ENOUGH)
    return claim.build_id


def positions(*persons: Person) -> list[str]:
    """All queued builds by what the service says about their places."""
    rows = [row for person in persons for row in person.get("/builds?state=queued").json()["items"]]
    return [row["id"] for row in sorted(rows, key=lambda row: row["queue_position"])]


def test_workspaces_take_turns(server: Server) -> None:
    big, small, late = (server.person(workspace=name) for name in ("big", "small", "late"))
    many, few = ask(big, 5), ask(small, 2)
    promised = positions(big, small)
    assert promised == [many[0], few[0], many[1], few[1], *many[2:]]
    assert [begin(server) for _ in range(3)] == promised[:3]
    (one,) = ask(late, 1)
    promised = positions(big, small, late)
    assert promised[0] == one  # it never had a turn
    assert [begin(server) for _ in range(6)] == [*promised, None][:6]


def test_priorities_are_a_workspaces_own(server: Server) -> None:
    loud, quiet = server.person(workspace="loud"), server.person(workspace="quiet")
    usual, urgent, waiting = ask(loud, 2), ask(loud, 2, priority=10), ask(quiet, 2, priority=-10)
    assert loud.get(f"/builds/{urgent[0]}").json()["priority"] == 10
    promised = positions(loud, quiet)
    assert promised == [urgent[0], waiting[0], urgent[1], waiting[1], *usual]
    assert [begin(server) for _ in range(6)] == promised
    for priority in (11, -11, 1.5, "high", 2**40):
        assert_problem(loud.build(priority=priority), 422, 1006)


@pytest.mark.parametrize("_", ROUNDS)
def test_a_workspace_runs_so_many_at_once(start_server: ServerFactory, _: int) -> None:
    server = start_server(builds_per_workspace=2)
    big, small = server.person(workspace="big"), server.person(workspace="small")
    mine, theirs = set(ask(big, 6)), set(ask(small, 1))
    claims = [claim for claim in together([lambda: claim_next(server.services)] * 6) if claim]
    running = {claim.build_id for claim in claims}
    assert len(claims) == 3 and theirs <= running and len(running & mine) == 2
    assert claim_next(server.services) is None
    finish(server.services, next(claim for claim in claims if claim.build_id in mine), _ENOUGH)
    assert claim_next(server.services) is not None
