"""What the tests find in the service: a small fleet, builds in three states, a finished run and a failed one."""

from dataclasses import dataclass
from typing import Any

from tests.web import handmade
from tests.web.device import Device, evaluation, report, step
from tests.web.service import Service

STEPS = 40
MEASURED_PEAK_BYTES = 3_744_000


@dataclass(frozen=True)
class Data:
    """Ids of what was put in."""

    model: dict[str, Any]
    build: dict[str, Any]
    failed_build: dict[str, Any]
    dataset: dict[str, Any]
    idle: Device
    quarantined: Device
    run: dict[str, Any]
    failed_run: dict[str, Any]


def fill(service: Service) -> Data:
    """Put everything in, the way people and devices do."""
    model = service.add_model("mobilenet")
    dataset = service.add_dataset("digits-shifted", samples=24)
    build = service.request_build(model, "mobilenet-sparse")
    failed_build = service.request_build(model, "mobilenet-typo", loss="cross_entrpy")
    idle = Device(service, "bench-pi-4")
    quarantined = Device(service, "copied-key")
    quarantined.open_session(counter=1)
    build = service.wait_for_build(build, "succeeded")
    failed_build = service.wait_for_build(failed_build, "failed")
    run = start_run(service, build, idle, dataset)
    idle.take_run()
    idle.report(evaluation("eval_before", 0.31), *map(step, range(1, STEPS + 1)), evaluation("eval_after", 0.94))
    idle.finish(state="succeeded", report=report(STEPS, MEASURED_PEAK_BYTES, handmade.PREDICTED_PEAK_BYTES))
    failed_run = start_run(service, build, idle, dataset)
    idle.take_run()
    idle.finish(state="failed", failure={"code": 2003, "detail": "The model needs 3.6 MB and 1.2 MB are free."})
    return Data(model, build, failed_build, dataset, idle, quarantined, run, failed_run)


def start_run(
    service: Service, build: dict[str, Any], device: Device, dataset: dict[str, Any], steps: int = STEPS
) -> dict[str, Any]:
    """Queue a training run with evaluation."""
    order = {"build_id": build["id"], "device_id": device.id, "dataset_id": dataset["id"], "steps": steps}
    run: dict[str, Any] = service.post("/runs", {**order, "eval_dataset_id": dataset["id"]})
    return run
