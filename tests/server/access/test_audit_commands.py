"""Every command that changes something is one entry of the audit log; one that is refused is none."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from sqlalchemy import update
from typer.testing import CliRunner

from pock_server.auth.roles import Role
from pock_server.cli import app as command_line
from pock_server.devices.tables import DeviceRecord
from pock_server.runner.sweeper import sweep_all
from tests.server.audit_log import count, entries, new_since
from tests.server.harness import Server

COMMANDS: dict[tuple[str, ...], tuple[list[str], str]] = {
    ("create-key",): (["create-key"], "api_key.create"),
    ("create-token",): (["create-token"], "enrolment_token.create"),
    ("revoke-devices",): (["revoke-devices", "--yes"], "device.revoke"),
    ("rotate-keys",): (["rotate-keys"], "trust.publish"),
    ("trust", "publish"): (["trust", "publish", "SIGNED"], "trust.publish"),
    ("members", "add"): (["members", "add", "carol", "--role", "viewer"], "member.add"),
    ("members", "change"): (["members", "change", "alice", "--role", "operator"], "member.change"),
    ("members", "disable"): (["members", "disable", "alice"], "member.change"),
    ("members", "enable"): (["members", "enable", "eve"], "member.change"),
    ("workspaces", "set-quota"): (["workspaces", "set-quota", "default", "devices=5"], "workspace.change"),
    ("rotate-wrapping-key",): (["rotate-wrapping-key"], "wrapping_key.rotate"),
    ("backup",): (["backup", "BACKUP"], "backup.make"),
}
"""{command that changes what people see: (its arguments, the action in its entry)}."""
READING = {
    *(("serve",), ("worker",), ("migrate",), ("openapi",), ("audit",), ("doctor",), ("members", "list")),
    *(("scrub",), ("gc",), ("restore",), ("workspaces", "list"), ("workspaces", "show")),
    *(("trust", "show"), ("trust", "new-root-key"), ("trust", "sign"), ("agent-release", "sign")),
}
"""Commands that change nothing that people see, but for what is lost or comes back whole."""


def _leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if hasattr(command, "list_commands"):
        context: Any = None
        for name in command.list_commands(context):
            yield from _leaves(command.get_command(context, name), (*path, name))
    else:
        yield path


def test_every_command_is_in_the_table() -> None:
    assert set(_leaves(typer.main.get_command(command_line))) == {*COMMANDS, *READING}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_that_changes_something_is_one_entry(server: Server, command: tuple[str, ...]) -> None:
    server.member(Role.ADMIN, "admin")
    server.member(Role.VIEWER, "alice")
    server.member(Role.VIEWER, "eve")
    environment = server.environment
    runner = CliRunner(env=environment)
    assert runner.invoke(command_line, ["members", "disable", "eve"]).exit_code == 0
    if command == ("revoke-devices",):
        server.device(server.person())
        with server.services.database.write() as unit:
            unit.session.execute(update(DeviceRecord).values(signing_key_id="0" * 16))
    arguments, action = COMMANDS[command]
    if command == ("trust", "publish"):
        arguments = [*arguments[:-1], str(signed_draft(runner, Path(environment["POCK_DATA_DIR"])))]
    if command == ("backup",):
        arguments = ["backup", str(Path(environment["POCK_DATA_DIR"]).parent / "backup.tar")]
    before = entries(server)
    result = runner.invoke(command_line, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    sweep_all(server.services)  # whenever the service comes to it
    (entry,) = new_since(before, server)
    assert entry["action"] == action and entry["actor"]["kind"] == "command_line" and entry["actor"]["name"]
    shown = runner.invoke(command_line, ["audit", "--since", entry["at"], "--json"])
    assert entry in [json.loads(line) for line in shown.output.splitlines()]
    of_whom = [] if entry["workspace_id"] is None else ["--workspace", "default"]
    assert action in runner.invoke(command_line, ["audit", *of_whom]).output


@pytest.mark.parametrize(
    "arguments",
    [
        ["create-key", "--member", "nobody"],
        ["create-key", "--role", "admin"],
        ["create-key", "--member", "alice", "--role", "admin"],
        ["create-key", "--member", "alice", "--scopes", "all"],
        ["create-key", "--member", "new\tname", "--role", "viewer"],
        ["members", "add", "alice", "--role", "viewer"],
        ["members", "add", "bob", "--role", "viewer", "--email", "nonsense"],
        ["members", "change", "nobody", "--role", "viewer"],
        ["members", "change", "admin", "--role", "viewer"],
        ["members", "disable", "admin"],
        ["members", "disable", "alice", "--workspace", "nowhere"],
        ["audit", "--since", "yesterday"],
        ["audit", "--workspace", "nowhere"],
    ],
    ids=" ".join,
)
def test_refused_command_changes_nothing_and_says_why(server: Server, arguments: list[str]) -> None:
    server.member(Role.ADMIN, "admin")
    server.member(Role.VIEWER, "alice")
    before = count(server)
    result = CliRunner(env=server.environment).invoke(command_line, arguments)
    assert result.exit_code == 2 and result.stderr.startswith("pock-server: ") and result.stderr.count("\n") == 1
    assert count(server) == before


def signed_draft(runner: CliRunner, data: Path) -> Path:
    """The next trust document, signed by the root key of the service."""
    file, root_key = str(data / "draft.json"), str(data / "keys" / "root.pem")
    for line in (["rotate-keys", "--draft", file], ["trust", "sign", file, "--root-key", root_key]):
        assert runner.invoke(command_line, line, catch_exceptions=False).exit_code == 0
    return Path(file)
