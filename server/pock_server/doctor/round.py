"""The round through everything; one check that breaks does not keep the others from being made."""

from collections.abc import Callable, Iterator, Mapping

from pock_server.doctor import broker, confinement, database, machine, settings, store, trust
from pock_server.doctor.findings import Finding, fail
from pock_server.observing.logs import clean, visible
from pock_server.settings import Settings

Check = Callable[[Settings], Iterator[Finding]]
_CHECKS: tuple[tuple[str, Check], ...] = (
    ("settings", settings.contradictions),
    ("database", database.check),
    ("store", store.check),
    ("data folder", machine.data_folder),
    ("keys", machine.keys),
    ("wrapping key", trust.check),
    ("sandbox", confinement.check),
    ("broker", broker.check),
    ("page", machine.page),
    ("metrics", machine.metrics),
    ("open files", machine.open_files),
    ("clock", machine.clock),
)
_CHARACTERS = 500


def examine(chosen: Settings, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Everything that was found, in order."""
    yield from settings.unknown(environment, chosen)
    for item, check in _CHECKS:
        try:
            for finding in check(chosen):
                yield Finding(finding.item, finding.outcome, _harmless(finding.says))
        except Exception as error:  # whatever breaks here is what the operator has to know
            yield fail(item, _harmless(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"))


def _harmless(text: str) -> str:
    """Without passwords, which messages of drivers may repeat."""
    return visible(clean(text, _CHARACTERS))
