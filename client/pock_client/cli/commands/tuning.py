"""`tuning`: what the fleet knows of kernels, how it is found out, and as files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import Client
from ..console import ago, milliseconds, plain, say, short, show_json, show_table
from ..faults import ServiceCommand
from ..options import Json, Limit, Profile
from ..session import connected
from ..watching import Seen, labelled, wait_for_all

tuning_app = typer.Typer(name="tuning", no_args_is_help=True, help="What devices found out about kernels.")
Target = Annotated[str, typer.Option("--target", help="A target of `targets`.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines, as docs/tuning.md describes them.")]


@tuning_app.command("show", cls=ServiceCommand)
def show_entries(
    target: Annotated[str | None, typer.Option("--target", help="Only of this target.")] = None,
    family: Annotated[str | None, typer.Option("--family", help="Only of this kernel family, such as matmul.")] = None,
    limit: Limit = 50,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """List what is known of workloads, newest first."""
    with connected(profile) as client:
        found = list(islice(client.tuning.entries(target=target, family=family), limit))
    if json:
        show_json({"items": plain(found)})
        return
    titles = ("workload", "target", "family", "choice", "time", "model's", "devices", "from", "decided")
    show_table(titles, map(_entry, found), "nothing is known; `build MODEL --tune fleet` has devices find out")


@tuning_app.command("jobs", cls=ServiceCommand)
def show_jobs(limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """List the searches for what is best for builds, newest first."""
    with connected(profile) as client:
        found = list(islice(client.tuning.jobs(), limit))
    if json:
        show_json({"items": plain(found)})
        return
    titles = ("id", "build", "target", "state", "packs", "tried", "decided", "begun")
    show_table(titles, map(_job, found), "no searches; `build MODEL --tune fleet` begins one")


@tuning_app.command("cancel", cls=ServiceCommand)
def cancel_job(
    job: Annotated[str, typer.Argument(metavar="ID", help="Of `tuning jobs --json`.")], profile: Profile = None
) -> None:
    """Stop a search; what was decided stays."""
    with connected(profile) as client:
        say(f"the search {short(client.tuning.cancel(job).id)} is cancelled")


@tuning_app.command("devices", cls=ServiceCommand)
def show_distrusted(limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """List the devices whose measurements do not count, and why."""
    with connected(profile) as client:
        found = list(islice(client.tuning.distrusted(), limit))
    if json:
        show_json({"items": plain(found)})
        return
    rows = ((short(one.device_id), one.reason, ago(one.since)) for one in found)
    show_table(("device", "why", "since"), rows, "all devices are believed")


@tuning_app.command("drop", cls=ServiceCommand)
def drop_device(
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="A name or an id.")], profile: Profile = None
) -> None:
    """Forget what a device measured, and that it was not believed."""
    with connected(profile) as client:
        found = client.devices.find(device)
        client.tuning.drop_device(found.id)
    say(f"nothing that {found.name} measured counts any more; it may be asked again")


@tuning_app.command("export", cls=ServiceCommand)
def export_entries(file: File, target: Target, profile: Profile = None, json: Json = False) -> None:
    """Write what is known of a target into a file."""
    with connected(profile) as client:
        count = client.tuning.export(file, target)
    if json:
        show_json({"file": str(file), "entries": count})
    else:
        say(f"{file}: {count} entries")


@tuning_app.command("import", cls=ServiceCommand)
def import_entries(file: File, target: Target, profile: Profile = None, json: Json = False) -> None:
    """Have the service know what a file says; what its own devices decided stays."""
    with connected(profile) as client:
        answer = client.tuning.import_file(file, target)
    if json:
        show_json(answer)
    else:
        say(f"{file}: {answer.added} entries are new, {answer.kept} were known")


def wait_until_tuned(client: Client, builds: Sequence[Any], timeout: float | None, program: str) -> None:
    """Until the searches that these builds began are over."""
    jobs = [job for one in builds for job in islice(client.tuning.jobs(build_id=one.id), 1)]
    after = f"devices go on: `{program} tuning jobs` shows how far they are"
    things = labelled(jobs, lambda job: f"tuning {job.build_name} for {job.target}")
    wait_for_all(things, client.tuning.get, _look, timeout, after)


def known_in_words(build: Any) -> str | None:
    """How much was known to a build that asked for the fleet's knowledge."""
    counted = getattr(build.summary, "tuning", None) if build.summary is not None else None
    if str(build.tune) == "off" or counted is None:
        return None
    by = ", ".join(f"{count} from {source}" for source, count in sorted(counted.known_by.items()))
    return f"{counted.hits} of {counted.workloads} workloads were known" + (f" ({by})" if by else "")


def _look(job: Any) -> Seen:
    words = {"building": "building trials", "measuring": "devices try kernels"}.get(str(job.state), str(job.state))
    return Seen(words, 1.0 if job.state == "succeeded" else None, f"{job.decided} decided, {job.trying} at it")


def _entry(one: Any) -> tuple[str, ...]:
    decided = "–" if one.decided_at is None else ago(one.decided_at)
    times = (milliseconds(one.ms), milliseconds(one.model_ms))
    source = str(one.source) if one.decided_at else "–"
    choice = one.choice_text or ("–" if one.choice is None else "(of the file)")
    return (one.key[:12], one.target, one.family, choice, *times, str(one.devices), source, decided)


def _job(one: Any) -> tuple[str, ...]:
    numbers = (str(one.packs), str(one.tried + one.trying), str(one.decided))
    return (short(one.id), one.build_name, one.target, str(one.state), *numbers, ago(one.created_at))
