"""How builds of users' models are confined."""

from collections.abc import Iterator

from pock_server.doctor.findings import Finding, fail, ok, warn
from pock_server.sandbox.choice import SandboxUnavailable, choose_sandbox
from pock_server.sandbox.confinement import Mechanism
from pock_server.settings import Settings

_ITEM = "sandbox"


def check(settings: Settings) -> Iterator[Finding]:
    """Confine a process that does nothing, and say what it found; nothing where no builds run.

    With a broker, workers have other machines than this one: each of them refuses to start without a sandbox.
    """
    if settings.runner != "inprocess":
        return
    try:
        sandbox = choose_sandbox(settings)
    except SandboxUnavailable as error:
        yield fail(_ITEM, str(error))
        return
    missing = [item.name for item in sandbox.protections if not item.enforced]
    if sandbox.mechanism is Mechanism.OFF:
        yield warn(_ITEM, "Builds run with this service's own rights: install bubblewrap and set POCK_SANDBOX=auto.")
    elif missing:
        yield fail(_ITEM, f"Builds are confined by {sandbox.mechanism}, but there is no: {', '.join(missing)}.")
    else:
        yield ok(_ITEM, str(sandbox))
