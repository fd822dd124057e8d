"""What devices can be, to the service and to a person."""

from enum import StrEnum


class DeviceStatus(StrEnum):
    """What the service decided about a device."""

    ACTIVE = "active"
    QUARANTINED = "quarantined"
    REVOKED = "revoked"


class DeviceState(StrEnum):
    """What a person sees: the status, or for active devices what they are doing."""

    ONLINE = "online"
    OFFLINE = "offline"
    BUSY = "busy"
    QUARANTINED = "quarantined"
    REVOKED = "revoked"
