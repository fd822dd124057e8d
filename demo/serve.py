"""`make serve`: keeps the service up on the demo's data, with the demo's agents at work, until Ctrl-C."""

import contextlib
import signal
import sys
from types import FrameType

from rich.console import Console

from demo import fleet, service
from demo.processes import StartError
from demo.run import HOME

console = Console()


def main() -> int:
    """Serve until interrupted; the exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        service.refuse_second(HOME)
        HOME.mkdir(parents=True, exist_ok=True)
        enrolled = tuple(device for device in fleet.devices(HOME / "devices") if device.folder.exists())
        with service.serving(HOME) as address, fleet.agents_running(enrolled):
            if not enrolled:
                console.print("There is nothing here yet; `make demo` trains a model and leaves its results.")
            console.print(f"page: {address.page}", soft_wrap=True, highlight=False)
            console.print("Ctrl-C stops the service and its agents.")
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    except StartError as error:
        console.print(f"make serve: {error}", markup=False)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
