"""Knows every table, so that migrations can be compared with them; import it from migrations only."""

import pock_server.agent_releases.tables
import pock_server.artifacts.tables
import pock_server.audit.tables
import pock_server.auth.tables
import pock_server.benchmarks.tables
import pock_server.blobs.tables
import pock_server.builds.tables
import pock_server.campaigns.tables
import pock_server.datasets.tables
import pock_server.devices.tables
import pock_server.events.tables
import pock_server.federations.tables
import pock_server.idempotency.tables
import pock_server.members.tables
import pock_server.models.tables
import pock_server.names.tables
import pock_server.policies.tables
import pock_server.recipes.tables
import pock_server.regressions.tables
import pock_server.rollouts.tables
import pock_server.runs.tables
import pock_server.schedules.tables
import pock_server.searches.tables
import pock_server.sessions.tables
import pock_server.targets.tables
import pock_server.trust.tables
import pock_server.tuning.tables
import pock_server.webhooks.tables  # noqa: F401
from pock_server.db.base import Base

METADATA = Base.metadata
