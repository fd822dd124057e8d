"""Labels: what operators say about their devices, as keys and values, to choose devices by."""

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from pock_server.devices.selectors.grammar import Key
from pock_server.devices.tables import DeviceLabelRecord, DeviceRecord
from pock_server.http.problems import Failure, Problem

MAX_LABELS = 32
"""Of one device."""
# Neither control characters of either set, nor those that only move, join or turn what stands around them.
_UNSEEN = r"\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"


def _is_free(key: str) -> str:
    if key in frozenset(Key):
        raise ValueError(f"{key} is no label: selectors know devices by it already")
    return key


LabelKey = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./\-]*$", max_length=63),
    AfterValidator(_is_free),
    Field(description=f"None of {', '.join(Key)}."),
]
LabelValue = Annotated[str, StringConstraints(pattern=rf"^[^{_UNSEEN}]+$", min_length=1, max_length=200)]
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=MAX_LABELS)]
LabelChanges = Annotated[
    dict[LabelKey, LabelValue | None],
    Field(max_length=MAX_LABELS, description="Those that are named change; null takes a label away."),
]


def labels_of(session: Session, devices: Iterable[DeviceRecord]) -> dict[str, dict[str, str]]:
    """The labels of each of these devices, by its id and in the order of their keys."""
    found: dict[str, dict[str, str]] = {device.id: {} for device in devices}
    query = select(DeviceLabelRecord).where(DeviceLabelRecord.device_id.in_(found))
    for row in session.scalars(query.order_by(DeviceLabelRecord.device_id, DeviceLabelRecord.key)):
        found[row.device_id][row.key] = row.value
    return found


def change_labels(session: Session, device: DeviceRecord, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Give the device, whose row is locked or new, these labels, and take away those that are None; what it has then.

    Raises a 422 `Problem` if that would be too many.
    """
    before = labels_of(session, [device])[device.id]
    after = {key: value for key, value in sorted({**before, **changes}.items()) if value is not None}
    if len(after) > MAX_LABELS:
        detail = f"This would make {len(after)} labels of device {device.name}; it may have {MAX_LABELS}."
        raise Problem(Failure.INVALID, detail)
    replaced = [key for key, value in before.items() if after.get(key) != value]
    if replaced:
        mine = (DeviceLabelRecord.device_id == device.id, DeviceLabelRecord.key.in_(replaced))
        session.execute(delete(DeviceLabelRecord).where(*mine))
    new = {key: value for key, value in after.items() if before.get(key) != value}
    session.add_all(DeviceLabelRecord(device_id=device.id, key=key, value=value) for key, value in new.items())
    session.flush()
    return after
