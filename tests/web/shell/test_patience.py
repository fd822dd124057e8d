"""A service that takes few requests of a key: the page waits as long as it says, says so, and goes on."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Response, Route, expect

from tests.web.blocks import block_network
from tests.web.conftest import visiting
from tests.web.service import Service, running_service, workspace
from tests.web.visitor import Visitor

SECONDS = 8
"""Until a key that has asked too often may ask once more: as long as a busy machine needs to see that it is said."""
AT_ONCE = 150
WAITS = re.compile(rf"The service takes no more requests for now; it goes on in [1-{SECONDS}] s\.")


@pytest.fixture(scope="module")
def strict(web_dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service with the real compiler and a low rate."""
    settings = {"POCK_KEY_RATE": str(1 / SECONDS), "POCK_KEY_BURST": str(AT_ONCE)}
    with running_service(tmp_path_factory.mktemp("service"), web_dist, worker=settings) as running:
        yield running


@pytest.fixture
def own(strict: Service, request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service with a key that no other test has used up."""
    with workspace(strict, request.node.name.replace("_", "-")) as seen:
        yield seen


@pytest.fixture
def model(own: Service) -> dict[str, Any]:
    row: dict[str, Any] = own.post("/models", {"name": "blocks", "digest": own.upload(block_network(1))})
    return row


@pytest.fixture
def hurried(own: Service, browser: Browser, node_modules: Path) -> Iterator[Visitor]:
    """A person who is signed in."""
    for visitor in visiting(browser, own, node_modules, {}):
        visitor.sign_in()
        yield visitor


def use_up_before(visitor: Visitor, path: str) -> None:
    """Just before the page's next request with this end, ask with the same key until that is too often."""

    def hurry(route: Route) -> None:
        answers = (visitor.service.client.get("/targets").status_code for _ in range(10 * AT_ONCE))
        assert any(status == 429 for status in answers)
        route.continue_()

    visitor.page.route(lambda address: address.endswith(path), hurry, times=1)


def answers_to(visitor: Visitor, path: str) -> list[Response]:
    """What the service answers to requests with this end of the address, as it comes."""
    found: list[Response] = []
    visitor.page.on("response", lambda answer: found.append(answer) if answer.url.endswith(path) else None)
    return found


def expect_patience(answers: list[Response]) -> None:
    """The first was refused, and was asked again as long after each refusal as that had said, until it was answered."""
    answers = [answer for answer in answers if answer.request.post_data == answers[0].request.post_data]
    assert answers[0].status == 429 and answers[-1].ok
    starts = [answer.request.timing["startTime"] for answer in answers]
    for refused, before, after in zip(answers, starts, starts[1:], strict=False):
        told = int(refused.headers["retry-after"])
        assert 1 <= told <= SECONDS
        assert after - before >= 1000 * told


def test_an_estimate_and_a_build_wait(hurried: Visitor, model: dict[str, Any]) -> None:
    page = hurried.page
    hurried.open(f"/models/{model['id']}/scheme", "What to train of blocks")
    expect(page.get_by_text("Planned in")).to_be_visible()
    use_up_before(hurried, "/estimate")
    estimates = answers_to(hurried, "/estimate")
    page.get_by_label("Trained of stem", exact=True).select_option("all")
    waits = hurried.section("What it takes").get_by_text(WAITS)
    expect(waits).to_be_visible()
    assert hurried.accessibility_violations() == []
    hurried.screenshot("scheme-waits")
    expect(page.get_by_text("Planned in")).to_be_visible()
    expect(waits).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect_patience(estimates)
    use_up_before(hurried, "/builds")
    builds = answers_to(hurried, "/builds")
    form = hurried.section("Build it")
    form.get_by_role("button", name="Build", exact=True).click()
    expect(form.get_by_text(WAITS)).to_be_visible()
    page.wait_for_url("**/#/builds/*")
    expect_patience(builds)


def test_a_view_waits_instead_of_a_refusal(hurried: Visitor, model: dict[str, Any]) -> None:
    use_up_before(hurried, "/models?limit=100")
    lists = answers_to(hurried, "/models?limit=100")
    hurried.open("/models", "Models")
    expect(hurried.section("All models").get_by_text(WAITS)).to_be_visible()
    hurried.screenshot("models-wait")
    expect(hurried.section("All models").get_by_role("link", name="blocks")).to_be_visible()
    expect(hurried.page.get_by_role("alert")).to_have_count(0)
    expect_patience(lists)
