"""Knows every table, so that migrations can be compared with them; import it from migrations only."""

import pock_server.artifacts.tables
import pock_server.audit.tables
import pock_server.auth.tables
import pock_server.blobs.tables
import pock_server.builds.tables
import pock_server.datasets.tables
import pock_server.devices.tables
import pock_server.events.tables
import pock_server.idempotency.tables
import pock_server.members.tables
import pock_server.models.tables
import pock_server.names.tables
import pock_server.recipes.tables
import pock_server.runs.tables
import pock_server.sessions.tables
import pock_server.targets.tables
import pock_server.trust.tables  # noqa: F401
from pock_server.db.base import Base

METADATA = Base.metadata
