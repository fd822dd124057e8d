"""Why runs fail, in classes: what may be tried again is told by class, not by code."""

from enum import StrEnum

TIMEOUT = 10001
UNTRUSTED_WORK = 2004
LOST_DEVICE = 2005
DEPENDENCY_FAILED = 2006


class FailureClass(StrEnum):
    """What kind of failure a code stands for (docs/service.md has the codes)."""

    TRANSIENT = "transient"
    """1000s and 20000s: the service, the network, a moment. It passes by itself."""
    CRASHED = "crashed"
    """2001: the program ended by a signal, or left no report."""
    DISK_FULL = "disk_full"
    """2002: the device has no room."""
    OUT_OF_MEMORY = "out_of_memory"
    """2003 and 10002: the run needs more memory than the device has, or has free."""
    VERIFICATION = "verification"
    """2004: the device does not believe the work, or its bytes are not those that were signed."""
    DEVICE_LOST = "device_lost"
    """2005: the device went silent, again and again."""
    DEPENDENCY = "dependency"
    """2006: what the run waited for did not succeed. It is never tried again."""
    MODEL = "model"
    """3000s: the model or its recipe."""
    TIMEOUT = "timeout"
    """10001: nobody took the run in time, or it did not end in time."""
    USER = "user"
    """All other 10000s: bad arguments, bad data."""
    OTHER = "other"
    """A code that this service does not know."""


_BY_CODE = {
    2001: FailureClass.CRASHED,
    2002: FailureClass.DISK_FULL,
    2003: FailureClass.OUT_OF_MEMORY,
    10002: FailureClass.OUT_OF_MEMORY,
    UNTRUSTED_WORK: FailureClass.VERIFICATION,
    LOST_DEVICE: FailureClass.DEVICE_LOST,
    DEPENDENCY_FAILED: FailureClass.DEPENDENCY,
    TIMEOUT: FailureClass.TIMEOUT,
}
_RANGES = (
    (range(1000, 2000), FailureClass.TRANSIENT),
    (range(3000, 4000), FailureClass.MODEL),
    (range(10_000, 20_000), FailureClass.USER),
    (range(20_000, 30_000), FailureClass.TRANSIENT),
)


def class_of(code: int) -> FailureClass:
    """The class of a failure code."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    return next((kind for codes, kind in _RANGES if code in codes), FailureClass.OTHER)
