"""The client: one connection to a service, and what the service has as attributes."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from pock_client import credentials
from pock_client.asynchronous.benchmarks import Benchmarks, Regressions
from pock_client.asynchronous.blobs import Blobs
from pock_client.asynchronous.builds import Builds
from pock_client.asynchronous.campaigns import Campaigns, Ingredients
from pock_client.asynchronous.federations import Federations
from pock_client.asynchronous.files import Artifacts, Datasets, Models, Recipes
from pock_client.asynchronous.fleet import Devices, EnrolmentTokens, Targets
from pock_client.asynchronous.policies import Policies
from pock_client.asynchronous.runs import Runs, Sources
from pock_client.asynchronous.schedules import Schedules
from pock_client.asynchronous.searches import Searches
from pock_client.asynchronous.transport import Transport
from pock_client.asynchronous.tuning import Tunings
from pock_client.asynchronous.updates import AgentReleases, Rollouts
from pock_client.asynchronous.webhooks import Webhooks
from pock_client.asynchronous.weights import Weights
from pock_client.asynchronous.workspace import Audit, Keys, Members
from pock_client.calls import Call, Options
from pock_client.schema import Me


class AsyncClient:
    """A service, spoken to with one key. It is open until `close`, or the end of a `with` block.

    `url` and `key` are found, where they are not given, in POCK_URL and POCK_KEY, then in what `pock login` saved (of
    `profile`). `timeout` is the longest silence of the service in seconds, `patience` how long a request that fails is
    tried again, `ca_file` has the certificates to believe instead of the system's, `transport` is httpx's own.
    Raises CredentialsError where no address or no key is known.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        profile: str | None = None,
        timeout: float = 30.0,
        patience: float = 60.0,
        ca_file: str | Path | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        options = Options(timeout, patience, None if ca_file is None else Path(ca_file))
        self._transport = Transport(credentials.find(url, key, profile), options, transport)
        self.blobs = Blobs(self._transport)
        self.models = Models(self._transport, self.blobs)
        self.datasets = Datasets(self._transport, self.blobs)
        self.recipes = Recipes(self._transport)
        self.artifacts = Artifacts(self._transport, self.blobs)
        self.builds = Builds(self._transport, self.models)
        self.searches = Searches(self._transport, self.models, self.datasets, self.blobs)
        self.devices = Devices(self._transport)
        self.policies = Policies(self._transport)
        self.enrolment_tokens = EnrolmentTokens(self._transport)
        weights = Weights(self.builds, self.artifacts, self.blobs)
        sources = Sources(self.builds, self.datasets, self.devices, weights)
        self.runs = Runs(self._transport, sources)
        self.federations = Federations(self._transport, sources)
        ingredients = Ingredients(self.models, self.recipes, self.builds, self.datasets, self.devices)
        self.campaigns = Campaigns(self._transport, ingredients)
        self.benchmarks = Benchmarks(self._transport, sources)
        self.regressions = Regressions(self._transport)
        self.webhooks = Webhooks(self._transport)
        self.schedules = Schedules(self._transport)
        self.targets = Targets(self._transport)
        self.tuning = Tunings(self._transport)
        self.agent_releases = AgentReleases(self._transport, self.blobs)
        self.rollouts = Rollouts(self._transport, self.agent_releases)
        self.members = Members(self._transport)
        self.keys = Keys(self._transport)
        self.audit = Audit(self._transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._transport.url

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def me(self) -> Me:
        """Whose key this is, and what it may do."""
        return await self._transport.json(Call("GET", "/me"), Me)
