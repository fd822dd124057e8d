"""`make demo`: the main job, end to end, on this machine: one table, the page's address, exit code 0."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from demo import fleet, service
from demo.processes import StartError, treat_sigterm_as_interrupt
from demo.progress import Progress, bar, console
from demo.service import HOME
from demo.table import Outcome, largest_difference, outcome_table, size
from pock_client import Build, Client, Dataset, Event, PockClientError, ProgressEvent, StepsEvent

MODELS = Path(".cache/models")
RECIPE = Path(__file__).with_name("recipe.yaml")
HOST_STEPS = 400
PI_STEPS = 5
AGREEMENT = 1e-4
BUILD_SECONDS = 600.0
RUN_SECONDS = 600.0


class DemoError(Exception):
    """Something did not come out as the demo promises."""


@dataclass(frozen=True)
class Data:
    """What the devices learn from, and what they are judged on."""

    train: Dataset
    held_out: Dataset


def main() -> int:
    """Run the demo; the exit code."""
    treat_sigterm_as_interrupt()
    try:
        service.refuse_second(HOME)
        shutil.rmtree(HOME, ignore_errors=True)
        demonstrate()
    except (DemoError, PockClientError, StartError) as error:
        console.print(f"make demo: {error}", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("stopped; everything the demo started has been ended")
        return 130
    return 0


def demonstrate() -> None:
    """Every step, in the order a user would take them."""
    with console.status("loading PyTorch"):
        from demo import digits, model
    splits = digits.load_splits()
    device_data, held_out = digits.shifted(splits.device), digits.shifted(splits.held_out)
    with bar("pre-training MobileNetV2 on digits") as progress:
        made = model.pretrained(splits.train, splits.held_out, MODELS, progress)
    console.print(f"accuracy on upright, light-on-dark digits, before the shift: {made.accuracy:.1%}")
    HOME.mkdir(parents=True)
    train_file, eval_file = HOME / "device.safetensors", HOME / "held-out.safetensors"
    device_data.save(train_file, model.INPUT)
    held_out.save(eval_file, model.INPUT)
    members = fleet.devices(HOME / "devices")
    with service.serving(HOME) as address, Client(address.url, address.key) as client:
        console.print(f"service on {address.url}")
        ids = {device.name: fleet.enroll(device, address.url, client) for device in members}
        with fleet.agents_running(members):
            builds = build_all(client, made.path)
            data = Data(client.datasets.push(train_file), client.datasets.push(eval_file))
            outcomes = run_all(client, members, ids, builds, data)
    console.print(outcome_table(outcomes))
    check_recovery(outcomes[0])
    check_agreement(outcomes)
    console.print(f"The {fleet.GPU} binary, with CUDA kernels, was built, not run: there is no such GPU here.")
    console.print(f"page: {address.page}", soft_wrap=True)
    console.print("The demo's service has ended; [bold]make serve[/] brings it up again at this address.")


def build_all(client: Client, onnx: Path) -> dict[str, Build]:
    """Push the model, request a build for each target, wait for all; the builds by target."""
    model = client.models.push(onnx, name="mobilenet_v2-digits")
    requests = {
        target: client.builds.create(model=model, recipe=RECIPE, target=target, threads=threads)
        for target, threads in (("host", 2), (fleet.PI, 4), (fleet.GPU, 4))
    }
    builds = {}
    for target, request in requests.items():
        with bar(f"building for {target}") as progress:

            def show(event: Event, progress: Progress = progress) -> None:
                if isinstance(event, ProgressEvent):
                    progress(round(100 * event.fraction), 100)

            build = builds[target] = client.builds.wait(request.id, on_event=show, timeout=BUILD_SECONDS)
        summary = build.summary
        assert summary is not None and summary.arena_bytes is not None and summary.lower_bound_bytes is not None
        console.print(
            f"  {summary.nodes_backward} of {summary.nodes_backward_dense} backward nodes kept, "
            f"arena {size(summary.arena_bytes)}, lower bound {size(summary.lower_bound_bytes)}"
        )
    return builds


def run_all(
    client: Client,
    members: tuple[fleet.Device, ...],
    ids: dict[str, str],
    builds: dict[str, Build],
    data: Data,
) -> list[Outcome]:
    """One run on each device, one after the other so that they do not disturb each other's times."""
    outcomes = []
    for device in members:
        steps = HOST_STEPS if device.target == "host" else PI_STEPS
        request = client.runs.create(
            build=builds[device.target],
            device=ids[device.name],
            dataset=data.train,
            eval_dataset=data.held_out,
            steps=steps,
            save_weights=True,
        )
        with bar(f"fine-tuning on {device.name}") as progress:

            def show(event: Event, progress: Progress = progress, steps: int = steps) -> None:
                if isinstance(event, StepsEvent) and event.items:
                    progress(event.items[-1].step, steps)

            try:
                run = client.runs.wait(request.id, on_event=show, timeout=RUN_SECONDS)
            except PockClientError as error:
                raise DemoError(f"{error}\nThe agent said:\n{fleet.last_words(device)}") from error
            progress(steps, steps)
        outcomes.append(Outcome(device.name, device.target != "host", run))
    return outcomes


def check_recovery(outcome: Outcome) -> None:
    """Fine-tuning on the device has to make the model better at what the device sees."""
    if outcome.accuracy("after") <= outcome.accuracy("before"):
        raise DemoError(f"the accuracy on {outcome.device} did not rise: see the table")


def check_agreement(outcomes: list[Outcome]) -> None:
    """The emulated Raspberry Pi has to compute what the host computes, step by step."""
    if len(outcomes) == 1:
        console.print(
            f"The {fleet.PI} binary was built, not run: qemu-aarch64-static (Debian: qemu-user-static) is missing."
        )
        return
    host, emulated = outcomes
    difference = largest_difference(host.losses, emulated.losses)
    if difference > AGREEMENT:
        raise DemoError(f"the losses on {emulated.device} differ from the host's by {difference:.1e} of their value")
    console.print(
        f"The losses of {emulated.device} agree with the host's: largest relative difference {difference:.1e}."
    )


if __name__ == "__main__":
    sys.exit(main())
