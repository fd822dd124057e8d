# Generated from pock_client/asynchronous by `python -m client.generate`.
"""What the fleet knows of kernels, how it is found out, and as files."""

from __future__ import annotations

from pathlib import Path

from pock_client.calls import Call, part, sending, settling
from pock_client.pausing import Stream, directly
from pock_client.schema import (
    Distrust,
    DistrustPage,
    Tuning,
    TuningEntry,
    TuningEntryPage,
    TuningImport,
    TuningImportIn,
    TuningPage,
)
from pock_client.synchronous.transport import Transport
from pock_client.tuning_files import portions, read_file, write_file

_PATH = "/tuning"


class Tunings:
    """`client.tuning`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def entries(self, **filters: str | None) -> Stream[TuningEntry]:
        """What is known of workloads, newest first; filters are `target`, `family` and `known` ("true", "false")."""
        return self._transport.pages(_PATH, TuningEntryPage, filters)

    def jobs(self, **filters: str | None) -> Stream[Tuning]:
        """The searches for what is best for builds, newest first; `build_id` filters."""
        return self._transport.pages(f"{_PATH}/jobs", TuningPage, filters)

    def get(self, ident: str) -> Tuning:
        """One search. Raises ServiceError with status 404 if there is none."""
        return self._transport.json(Call("GET", f"{_PATH}/jobs/{part(ident)}"), Tuning)

    def cancel(self, ident: str) -> Tuning:
        """Stop a search; what was decided stays."""
        return self._transport.json(settling(f"{_PATH}/jobs", ident, "cancel"), Tuning)

    def distrusted(self) -> Stream[Distrust]:
        """The devices whose measurements do not count, and why."""
        return self._transport.pages(f"{_PATH}/devices", DistrustPage, {})

    def drop_device(self, ident: str) -> None:
        """Forget what a device measured, and that it was not believed."""
        self._transport.read(Call("DELETE", f"{_PATH}/devices/{part(ident)}"))

    def export(self, path: str | Path, target: str) -> int:
        """Write what is known of a target into a file, which `pock compile --tune known --tuning` and `import_file`
        read; how many entries. Raises OSError."""
        found: list[TuningEntry] = []
        for one in self.entries(target=target, known="true"):
            found += [one]
        return directly(write_file, Path(path), found)

    def import_file(self, path: str | Path, target: str) -> TuningImport:
        """Have the service know what a file says. Raises PockClientError where it is no such file."""
        entries = directly(read_file, Path(path))
        added = kept = 0
        for portion in portions(entries):
            body = TuningImportIn(target=target, entries=portion)
            answer = self._transport.json(sending("POST", _PATH, body), TuningImport)
            added, kept = added + answer.added, kept + answer.kept
        return TuningImport(added=added, kept=kept)
