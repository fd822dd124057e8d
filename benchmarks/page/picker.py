"""What a person waits for in the scheme picker: what the change of one layer takes, about at first, then as planned."""

from __future__ import annotations

import contextlib
import logging
import statistics
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from playwright.sync_api import Browser, Page, Request, Response, TimeoutError

from benchmarks.page.looks import Figure
from benchmarks.page.stand import tab
from benchmarks.peers.torch_models import settled
from benchmarks.workloads import FAMILIES, Family
from tests.web.service import Service

CHANGES = 20
BATCH = 8
_MOST_MS, _MOST_PLANNED_MS, _MOST_ERROR = 300, 2000, 2
_PLANNED_MS = 300_000
"""The first plan of a model takes longer than any after it."""
_QUIET_MS = 20_000


def estimates(running: Browser, service: Service) -> Iterator[Figure]:
    """Layers from the first to the last, each frozen if it was trained and trained if it was frozen, one after another
    as soon as the estimate of the change before is there; the service with the real compiler, which has learned to
    approximate."""
    family = FAMILIES["mobilenetv2"]
    model = service.post("/models", {"name": family.name, "digest": service.upload(_onnx_of(family))})
    with tab(running) as one:
        one.page.set_default_timeout(_PLANNED_MS)
        one.sign_in(service)
        one.open(f"/models/{model['id']}/scheme")
        one.page.get_by_text("Planned in").wait_for()
        one.page.wait_for_event("response", _has_learned)
        _wait_for_presets(one.page)
        times = one.page.evaluate(_CHANGE_LAYERS, CHANGES)
    about, planned_after, told, true = zip(*times, strict=True)
    for name, waits, most in (("approximation", about, _MOST_MS), ("plan", planned_after, _MOST_PLANNED_MS)):
        what = f"{name} after a change, {family.title}"
        yield Figure(f"{what}: median of {CHANGES}", statistics.median(waits), most, "ms")
        yield Figure(f"{what}: worst of {CHANGES}", max(waits), most, "ms")
    errors = [100 * abs(peak / planned - 1) for peak, planned in zip(told, true, strict=True)]
    what = f"approximated peak, {family.title}: error"
    yield Figure(f"{what}, median of {CHANGES}", statistics.median(errors), _MOST_ERROR, "%")
    yield Figure(f"{what}, worst of {CHANGES}", max(errors), _MOST_ERROR, "%")


def _wait_for_presets(page: Page) -> None:
    """Until none is planned ahead any more. Those that come to the same recipe are planned once."""
    with contextlib.suppress(TimeoutError):
        while True:
            page.wait_for_event("requestfinished", _is_estimate, timeout=_QUIET_MS)


def _is_estimate(request: Request) -> bool:
    return request.url.endswith("/estimate")


def _has_learned(answer: Response) -> bool:
    return answer.url.endswith("/approximation") and answer.ok and answer.json()["learned"] == 1


def _onnx_of(family: Family) -> bytes:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    example = torch.from_numpy(family.feed(batch=BATCH)[family.input_name])
    with tempfile.TemporaryDirectory(prefix="pock-page-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            settled(family), (example,), str(path), dynamo=True, optimize=False, external_data=False, verbose=False
        )
        return path.read_bytes()


_CHANGE_LAYERS = """async (changes) => {
  const all = [...document.querySelectorAll("table.picks select")];
  const layers = all.filter((one) => [...one.options].some(({ value }) => value === "all"));
  const state = document.querySelector(".verdict-state");
  const row = [...document.querySelectorAll(".verdict tr")].find((one) => one.textContent.startsWith("Peak memory"));
  const peak = () => {
    const [number, unit] = row.lastElementChild.textContent.split(/\\s/);
    return Number(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].indexOf(unit);
  };
  const planned = (change) => new Promise((done) => {
    let asked = false, about = null;
    const observer = new MutationObserver(() => {
      const text = state.textContent;
      if (text.startsWith("Planning")) asked = true;
      if (asked && about === null && !text.startsWith("Planning"))
        about = new Promise((drawn) => requestAnimationFrame(() => drawn([performance.now() - began, peak()])));
      if (!asked || !text.startsWith("Planned")) return;
      observer.disconnect();
      requestAnimationFrame(() => {
        const last = performance.now() - began;
        about.then(([first, told]) => done([first, last, told, peak()]));
      });
    });
    observer.observe(state, { characterData: true, childList: true, subtree: true });
    const began = performance.now();
    change();
  });
  const times = [];
  for (let turn = 0; turn < changes; turn++) {
    const layer = layers[Math.round((turn * (layers.length - 1)) / (changes - 1))];
    times.push(await planned(() => {
      layer.value = layer.value === "frozen" ? "all" : "frozen";
      layer.dispatchEvent(new Event("change", { bubbles: true }));
    }));
  }
  return times;
}"""
"""Of each change, milliseconds until figures are drawn: about, and those of the plan, which are the first where it was
quicker; then the peaks that both tell. "Planned in" stands there of the present recipe only."""
