"""Changes keys while the service runs: a new signing key, another root key, the end of a key that was stolen."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pock_server.audit.service import WHOLE_SERVICE, Action, Subject, record
from pock_server.db.unit import Unit
from pock_server.devices.tables import DeviceRecord
from pock_server.devices.trust import count_pinned, revoke_pinned
from pock_server.signing import Signer
from pock_server.trust.chain import Change, draft, erase_retired, publish, revoke_keys
from pock_server.trust.documents import Trust, sign
from pock_server.trust.keyring import KeyRing
from pock_server.trust.schemas import TrustDocument


@dataclass(frozen=True)
class Rotated:
    """What was published; `pinned` are keys and the devices that know no other; `revoked` have to be enrolled anew."""

    trust: Trust
    pinned: dict[str, int]
    revoked: list[DeviceRecord]


def rotate(
    unit: Unit, keys: KeyRing, change: Change, root_keys: Sequence[Signer], stolen: Sequence[str], now: datetime
) -> Rotated:
    """Put the next version, with this change and signed by these root keys, in force; raises BadDocument."""
    revoke_keys(unit.session, stolen, now)  # the next version must not name them
    return put_in_force(unit, keys, sign(draft(unit, keys, change, now).draft(), root_keys), stolen, now)


def put_in_force(unit: Unit, keys: KeyRing, document: TrustDocument, stolen: Sequence[str], now: datetime) -> Rotated:
    """Publish the document and revoke the stolen keys. What nobody needs any more is erased.

    Devices that pinned a stolen key and have no trust document cannot be told; they are revoked.
    """
    revoke_keys(unit.session, stolen, now)
    trust = publish(unit, keys, document, now)
    subject = Subject(str(trust.version), WHOLE_SERVICE)
    record(unit, Action.TRUST_PUBLISH, subject, f"trust document {trust.version}", now)
    revoked = revoke_pinned(unit, stolen, now)
    unit.session.flush()
    pinned = {key: count for key, count in count_pinned(unit.session).items() if key is not None}
    erase_retired(unit.session, pinned)
    return Rotated(trust, pinned, revoked)
