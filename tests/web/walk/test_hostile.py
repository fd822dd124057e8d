"""Every text that people or devices can send is shown as text: none is taken for markup, wherever it is shown."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect
from safetensors.numpy import save

from tests.web.device import Device, evaluation, report, step
from tests.web.service import Service
from tests.web.visitor import Visitor

HOSTILE = '"><img src=x onerror="window.hurt=1"><script>window.hurt=1</script>{{7*7}}'
STEPS = 5


@dataclass(frozen=True)
class Scene:
    """Addresses at which something hostile is shown."""

    service: Service
    addresses: list[str]


@pytest.fixture(scope="module")
def scene(service: Service) -> Scene:
    model = service.add_model(HOSTILE)
    tensors: dict[str, np.ndarray[Any, Any]] = {HOSTILE: np.zeros((4, 2), np.float32), "labels": np.zeros(4, np.int64)}
    data = service.post("/datasets", {"name": HOSTILE, "digest": service.upload(save(tensors))})
    build = service.request_build(model, HOSTILE)
    failed_build = service.request_build(model, HOSTILE, loss=HOSTILE)
    recipe = {"name": HOSTILE, "recipe": {"loss": "cross_entropy", "update": [{"params": HOSTILE}], "batch": 4}}
    assert service.client.post("/recipes", json=recipe).status_code in (201, 422)
    service.post("/api-keys", {"name": HOSTILE, "scopes": ["read"], "ttl_days": 1})
    service.post("/members", {"name": HOSTILE, "role": "viewer"})
    facts = {"cpu_model": HOSTILE, HOSTILE: HOSTILE, "health": {HOSTILE: HOSTILE, "temperature_c": HOSTILE}}
    device = Device(service, HOSTILE, facts)
    build = service.wait_for_build(build, "succeeded")
    failed_build = service.wait_for_build(failed_build, "failed")
    return Scene(service, [
        "/", "/models", f"/models/{model['id']}", "/datasets", f"/datasets/{data['id']}", "/builds",
        f"/builds/{build['id']}", f"/builds/{failed_build['id']}", f"/artifacts/{build['artifact_digest']}",
        "/fleet", f"/devices/{device.id}", "/runs", *_runs(service, build, device), "/admin/keys", "/admin/members",
        "/admin/audit",
    ])  # fmt: skip


def _runs(service: Service, build: dict[str, Any], device: Device) -> list[str]:
    """One that ended well, and one that failed; each tells hostile things."""
    order = {"build_id": build["id"], "device_id": device.id, "steps": STEPS}
    order["dataset_id"] = service.add_dataset("digits", 24)["id"]
    good, bad = (service.post("/runs", order) for _ in range(2))
    told: dict[str, Any] = report(STEPS, 3_700_000, 3_600_000)
    told["train"]["kernels"] = [{"name": HOSTILE, "kernel": HOSTILE, "ms": 0.5, "flops": 1, "bytes": 1}]
    told["health"][HOSTILE] = HOSTILE
    device.take_run()
    device.report(evaluation("eval_before", 0.1), *map(step, range(1, STEPS + 1)), evaluation("eval_after", 0.2))
    device.finish(state="succeeded", report=told)
    device.take_run()
    device.finish(state="failed", failure={"code": 2003, "detail": HOSTILE})
    return [f"/runs/{run['id']}" for run in (good, bad)]


def test_nothing_that_is_sent_is_taken_for_markup(visitor: Visitor, scene: Scene) -> None:
    visitor.sign_in()
    for address in scene.addresses:
        visitor.page.evaluate("address => { location.hash = address }", address)
        expect(visitor.page.locator("main .loading")).to_have_count(0)
        expect(visitor.page.locator("main").get_by_text(HOSTILE[:24]).first, address).to_be_attached()
        assert visitor.page.evaluate("window.hurt") is None, address
        assert visitor.page.locator('img[src="x"], script:not([src])').count() == 0, address
        assert not visitor.is_wider_than_the_screen(), address


def test_what_is_sought_is_text_too(visitor: Visitor, scene: Scene) -> None:
    visitor.sign_in()
    visitor.page.keyboard.press("Control+k")
    expect(visitor.page.get_by_role("dialog").get_by_role("combobox")).to_be_focused()
    visitor.page.keyboard.type(HOSTILE)
    options = visitor.page.get_by_role("option")
    expect(options.filter(has_text=HOSTILE[:24]).first).to_be_visible()
    assert visitor.page.locator('img[src="x"], script:not([src])').count() == 0
    assert visitor.page.evaluate("window.hurt") is None
