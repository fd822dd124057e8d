"""`make serve`: keeps the service up on the demo's data, with the demo's agents at work, until Ctrl-C."""

import contextlib
import signal
import sys

from demo import fleet, service
from demo.processes import StartError, treat_sigterm_as_interrupt
from demo.progress import console
from demo.service import HOME


def main() -> int:
    """Serve until interrupted; the exit code."""
    treat_sigterm_as_interrupt()
    try:
        service.refuse_second(HOME)
        HOME.mkdir(parents=True, exist_ok=True)
        enrolled = tuple(device for device in fleet.devices(HOME / "devices") if device.folder.exists())
        with service.serving(HOME) as address, fleet.agents_running(enrolled):
            if not enrolled:
                console.print("There is nothing here yet; `make demo` trains a model and leaves its results.")
            console.print(f"page: {address.page}", soft_wrap=True)
            console.print("Ctrl-C stops the service and its agents.")
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    except StartError as error:
        console.print(f"make serve: {error}", markup=False)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
