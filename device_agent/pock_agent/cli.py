"""The `pock-agent` command. Exit codes: 0 done, 1 the job failed, 2 bad command line or set-up, 3 expelled."""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from pock_agent import __version__
from pock_agent.care import doctor, policies, systemd
from pock_agent.care.finding import Outcome
from pock_agent.disk.directory import StateDirectory, default_state_directory
from pock_agent.disk.identity import Identity
from pock_agent.disk.local_data import LocalData
from pock_agent.errors import AgentError, NotWelcome
from pock_agent.life import agent, enrollment
from pock_agent.place.choice import Wish, place_for, serial_for
from pock_agent.settings import Settings
from pock_agent.update.standing import update_lines
from pock_agent.update.updater import Replaced, restart

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    options = _parser().parse_args(_serials_apart(sys.argv[1:] if arguments is None else arguments))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    signal.signal(signal.SIGTERM, _stop)
    try:
        return int(options.act(options))
    except Replaced:
        return restart(StateDirectory(options.state_dir))
    except NotWelcome as error:
        print(f"pock-agent: {error}", file=sys.stderr)
        return 3
    except (AgentError, OSError) as error:
        print(f"pock-agent: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pock-agent: stopped; a job in hand goes on at the next start", file=sys.stderr)
        return 130


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _serials_apart(arguments: Sequence[str]) -> list[str]:
    """`--adb` may have a serial or not; a service's address that follows it is none."""
    words = list(arguments)
    for place, word in enumerate(words[:-1]):
        if word == "--adb" and "://" in words[place + 1]:
            words[place] = "--adb="
    return words


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pock-agent", description="Runs training jobs of a PockEngine service here.")
    parser.add_argument("--version", action="version", version=f"pock-agent {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    enroll = commands.add_parser("enroll", help="register this device with a service")
    enroll.add_argument("url", metavar="URL", help="the service's address, e.g. https://pock.example.org")
    enroll.add_argument("token", metavar="TOKEN", help="a one-time enrolment token, made on the service")
    enroll.add_argument(
        "--name", default=platform.node() or "device", help="the name people see (default: %(default)s)"
    )
    enroll.add_argument("--target", help="the target to build for; found out where possible")
    enroll.set_defaults(act=_enroll)
    run = commands.add_parser("run", help="wait for jobs and carry them out")
    run.add_argument("--once", action="store_true", help="stop after one job; exit code 1 when it failed")
    run.set_defaults(act=_run)
    show = commands.add_parser("status", help="show who this device is and what it is doing")
    show.add_argument("--json", action="store_true", help="print one JSON object")
    show.set_defaults(act=_status)
    look = commands.add_parser("doctor", help="look at all that a job needs, and say what to do")
    look.add_argument("--json", action="store_true", help="print one JSON object")
    look.set_defaults(act=_doctor)
    listed = _add_data(commands)
    policy = commands.add_parser("policy", help="what this device may do when")
    shown = policy.add_subparsers(required=True, metavar="COMMAND").add_parser(
        "show", help="show whether work is allowed now, why not, and until when"
    )
    shown.add_argument("--json", action="store_true", help="print one JSON object")
    shown.set_defaults(act=_policy)
    install = commands.add_parser("install", help="run as a service of systemd, from now on and at every start")
    kind = install.add_mutually_exclusive_group()
    kind.add_argument("--print", action="store_true", dest="show", help="only show the unit")
    kind.add_argument(
        "--only-files", action="store_true", help="only put the agent and its launcher where it keeps its state"
    )
    kind.add_argument("--remove", action="store_true", help="stop it and take the unit away")
    install.set_defaults(act=_install)
    check = commands.add_parser("self-check")  # without help: an agent asks a newer one
    check.set_defaults(act=_self_check)
    for command in (enroll, run, look, shown):
        _add_adb(command)
    for command in (enroll, run, show, look, shown, install, check, *listed):
        command.add_argument(
            "--state-dir",
            type=Path,
            default=default_state_directory(),
            metavar="D",
            help="key, records and downloaded files of this device (default: %(default)s)",
        )
    return parser


def _add_adb(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--adb",
        nargs="?",
        const="",
        metavar="SERIAL",
        help="the Android phone that runs the jobs; without SERIAL the only one that adb reaches. enroll keeps it",
    )
    command.add_argument("--adb-path", metavar="PROGRAM", help="the adb to use (default: $ADB, or the one in PATH)")


def _wish(options: argparse.Namespace) -> Wish:
    return Wish(options.adb, options.adb_path)


def _add_data(commands: Any) -> list[argparse.ArgumentParser]:
    """`data add`, `data list`, `data remove`."""
    data = commands.add_parser("data", help="name data that stays on this device")
    below = data.add_subparsers(required=True, metavar="COMMAND")
    add = below.add_parser("add", help="name a safetensors file: runs refer to it, and its bytes never leave")
    add.add_argument("name", metavar="NAME", help="what people call it")
    add.add_argument("path", metavar="PATH", type=Path, help="the file")
    add.add_argument("--eval", metavar="PATH", type=Path, help="also name this file, NAME-eval")
    add.set_defaults(act=_add)
    listed = below.add_parser("list", help="show what is named")
    listed.add_argument("--json", action="store_true", help="print one JSON object")
    listed.set_defaults(act=_list)
    remove = below.add_parser("remove", help="forget a name; the file stays")
    remove.add_argument("name", metavar="NAME")
    remove.set_defaults(act=_remove)
    return [add, listed, remove]


def _add(options: argparse.Namespace) -> int:
    data = LocalData(StateDirectory(options.state_dir))
    for name, path in ((options.name, options.path), (f"{options.name}-eval", options.eval)):
        if path is not None:
            found = data.add(name, path)
            print(f"{name}: {found.samples} samples, {found.size} bytes, sha256 {found.sha256[:12]}…")
    return 0


def _list(options: argparse.Namespace) -> int:
    found = LocalData(StateDirectory(options.state_dir)).all().values()
    if options.json:
        print(json.dumps({"datasets": [{**one.told(), "path": one.path} for one in found]}))
        return 0
    for one in found:
        tensors = ", ".join(f"{tensor.name} {tensor.dtype}{list(tensor.shape)}" for tensor in one.tensors)
        print(f"{one.name}  {one.samples} samples, {one.size} bytes: {tensors}  {one.path}")
    return 0


def _remove(options: argparse.Namespace) -> int:
    LocalData(StateDirectory(options.state_dir)).remove(options.name)
    print(f"{options.name} is forgotten; its file stays")
    return 0


def _enroll(options: argparse.Namespace) -> int:
    serial = serial_for(_wish(options))
    wish = enrollment.Enrollment(options.url, options.token, options.name, options.target, serial)
    place = place_for(_wish(options), serial, "enrolment")
    identity = enrollment.enroll(wish, StateDirectory(options.state_dir), Settings(), place)
    parts = urlsplit(options.url)
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        print(
            "pock-agent: warning: plain http lets anyone on the way pose as the service; prefer https",
            file=sys.stderr,
        )
    print(f"enrolled as {identity.name!r} ({identity.device_id}), target {identity.target}")
    print(f"next: pock-agent run --state-dir {options.state_dir}")
    return 0


def _run(options: argparse.Namespace) -> int:
    succeeded = agent.run(StateDirectory(options.state_dir), Settings(), options.once, _wish(options))
    return 0 if succeeded else 1


def _doctor(options: argparse.Namespace) -> int:
    found = list(doctor.examine(StateDirectory(options.state_dir), Settings(), wish=_wish(options)))
    broken = any(one.outcome is Outcome.FAIL for one in found)
    if options.json:
        print(json.dumps(doctor.as_json(found)))
        return int(broken)
    width = max(len(one.item) for one in found)
    for one in found:
        print(f"{one.outcome.value:4}  {one.item:{width}}  {one.says}")
    return int(broken)


def _policy(options: argparse.Namespace) -> int:
    directory = StateDirectory(options.state_dir)
    identity = Identity.load(directory)
    place = place_for(_wish(options), identity.adb, identity.device_id)
    keeper = policies.keeper_of(directory, Settings(), place)
    print(json.dumps(policies.describe(keeper)) if options.json else "\n".join(policies.lines(keeper)))
    return 0


def _self_check(options: argparse.Namespace) -> int:
    agent.self_check(options.state_dir)
    return 0


def _install(options: argparse.Namespace) -> int:
    as_root = os.geteuid() == 0
    path = systemd.path_for(as_root)
    if options.show:
        print(systemd.unit(options.state_dir, as_root), end="")
    elif options.remove:
        systemd.remove(path, as_root)
        print(f"{path} is gone; {options.state_dir} stays")
    elif options.only_files:
        Identity.load(StateDirectory(options.state_dir))
        program = " ".join(systemd.set_up_files(options.state_dir))
        print(f"have your init run at the start, and when it fails: {program} run --state-dir {options.state_dir}")
    else:
        Identity.load(StateDirectory(options.state_dir))
        print("\n".join(systemd.install(options.state_dir, path, as_root)))
    return 0


def _status(options: argparse.Namespace) -> int:
    found = agent.status(options.state_dir)
    if options.json:
        print(json.dumps(found))
        return 0
    process, job, last = found["running_process"], found["job"], found["last_job"]
    print(f"device    {found['name']} ({found['device_id']})")
    print(f"service   {found['url']}")
    print(f"target    {found['target']}")
    if found["adb"] is not None:
        print(f"phone     {found['adb']}")
    print(f"agent     {found['version']}, {'not running' if process is None else f'running, process {process}'}")
    for line in update_lines(found["update"]):
        print(f"update    {line}")
    print(f"job       {'none' if job is None else job['state']}")
    if last is not None:
        failure = f", {last['failure']['detail']}" if last["failure"] else ""
        print(f"last job  {last['outcome']} at {last['finished_at']}{failure}")
    return 0
