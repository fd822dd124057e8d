"""Builds a model for the devices of a pool, and fails where its step is slower than that of the last release.

    python step_times.py model.onnx recipe.yaml --on pool=desk --allowed 5%     in a pull request
    python step_times.py model.onnx recipe.yaml --on pool=desk --release        of a release

Needs pock-client alone, POCK_URL and POCK_KEY. The release's build has the tag `release`. On each device the release's
build is measured first and then the new one, minutes apart: what the device does differently today it does to both.
Ends with 1 where a step is surely slower than allowed, and with 2 where something could not be measured.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pock_client import Client
from pock_client.errors import PockClientError

TAG = "release"
CERTAIN = 0.05
"""A step is surely slower where the rank test's p is at most this."""
TITLES = ("device", "target", "release ms", "this ms", "ratio", "95 %", "p", "")


@dataclass(frozen=True)
class Result:
    """One device: both benchmarks, and how the new one compares."""

    device: Any
    release: Any
    new: Any
    slower: bool

    @property
    def row(self) -> tuple[str, ...]:
        """Its row under `TITLES`."""
        found = self.new.comparison
        interval = "–" if found.interval_low is None else f"{found.interval_low:.3f} – {found.interval_high:.3f}"
        times = tuple(f"{one.verdict.median_ms:.4g}" for one in (self.release, self.new))
        verdict = "**slower**" if self.slower else "" if self.new.verdict.stable else "not stable"
        ratio = f"{found.ratio:.3f}"
        return (self.device.name, self.device.target, *times, ratio, interval, f"{found.p_value:.4f}", verdict)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    chosen = _parser().parse_args(arguments)
    with Client() as client:
        try:
            devices = [one for one in client.devices.list(chosen.on) if one.target]
            if not devices:
                print(f"no device matches '{chosen.on}'", file=sys.stderr)
                return 2
            builds = _built(client, chosen, sorted({str(one.target) for one in devices}))
            if chosen.release:
                for build in builds.values():
                    client.builds.tag(build.id, TAG)
                    print(f"{build.name}:v{build.version} is the release")
                return 0
            return _report(list(_results(client, chosen, devices, builds)), chosen.allowed)
        except PockClientError as error:
            print(error, file=sys.stderr)
            return 2


def _built(client: Client, chosen: argparse.Namespace, targets: Sequence[str]) -> dict[str, Any]:
    """The model's build for each target."""
    model = client.models.push(chosen.model)
    asked = {
        target: client.builds.create(model=model, recipe=chosen.recipe, target=target, name=f"{model.name}-{target}")
        for target in targets
    }
    return {target: client.builds.wait(build.id) for target, build in asked.items()}


def _results(
    client: Client, chosen: argparse.Namespace, devices: Sequence[Any], builds: dict[str, Any]
) -> Iterator[Result]:
    """What each device says; devices of a target that was never released say nothing."""
    for device in devices:
        build = builds[device.target]
        release = next(client.builds.list(ref=f"{build.name}:{TAG}"), None)
        if release is None:
            print(f"{build.name} has no release yet: nothing to hold {device.name} against", file=sys.stderr)
            continue
        before = _measured(client, chosen, release, device)
        after = _measured(client, chosen, build, device, baseline=before.id)
        found = after.comparison
        yield Result(device, before, after, found.ratio > 1 + chosen.allowed and found.p_value <= CERTAIN)


def _measured(client: Client, chosen: argparse.Namespace, build: Any, device: Any, **options: Any) -> Any:
    """A benchmark that succeeded; raises PockClientError."""
    options |= {"repeats": chosen.repeats, "steps": chosen.steps, "cool_down": chosen.cool_down}
    asked = client.benchmarks.create(build=build, device=device, **options)
    found = client.benchmarks.wait(asked.id, timeout=chosen.timeout)
    if found.verdict is None:
        detail = found.failure.detail if found.failure else str(found.state)
        raise PockClientError(f"{build.name} could not be measured on {device.name}: {detail}")
    return found


def _report(results: Sequence[Result], allowed: float) -> int:
    """Print the table, on the page of the pull request's check as well."""
    rows = [TITLES, ("---",) * len(TITLES), *(one.row for one in results)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    slower = sum(one.slower for one in results)
    sentence = f"{slower} of {len(results)} devices take more than {allowed:.0%} longer than with the last release."
    text = f"{table}\n\n{sentence}\n" if results else "Nothing was measured: there is no release yet.\n"
    print(text, end="")
    page = os.environ.get("GITHUB_STEP_SUMMARY")
    if page:
        with Path(page).open("a") as file:
            file.write(text)
    return 1 if slower else 0


def _share(text: str) -> float:
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--on", required=True, metavar="SELECTOR", help="devices, such as pool=desk")
    parser.add_argument("--allowed", type=_share, default=0.05, metavar="SHARE", help="how much slower (default: 5%%)")
    parser.add_argument("--release", action="store_true", help="tag the builds as the release, and measure nothing")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--cool-down", type=int, default=0, metavar="SECONDS")
    parser.add_argument("--timeout", type=float, default=1800, metavar="SECONDS", help="of each benchmark")
    return parser


if __name__ == "__main__":
    sys.exit(main())
