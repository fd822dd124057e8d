"""What a process of the service is made of, built once from the settings and handed to every request."""

from dataclasses import dataclass

from pock_server.blobs.opening import open_store
from pock_server.blobs.store import BlobStore
from pock_server.clock import Clock, SystemClock
from pock_server.db.engine import is_postgres, make_engine
from pock_server.db.unit import Database
from pock_server.devices.fleet import Fleet
from pock_server.following.lists import Lists
from pock_server.health.care import CareCollector
from pock_server.health.disk import DiskCollector
from pock_server.health.probe import Probe
from pock_server.health.queues import QueueCollector
from pock_server.hub import Hub
from pock_server.observing.metrics import Metrics
from pock_server.observing.observer import Observer
from pock_server.observing.traces import Traces, open_traces
from pock_server.settings import Settings
from pock_server.targets.service import Compilers
from pock_server.trust.keyring import KeyRing
from pock_server.trust.wrapping import WrappingKey


@dataclass(frozen=True)
class Services:
    """The long-lived parts; immutable, shared by all threads."""

    settings: Settings
    database: Database
    blobs: BlobStore
    keys: KeyRing
    hub: Hub
    clock: Clock
    metrics: Metrics
    traces: Traces
    readiness: Probe
    compiler: Compilers
    fleet: Fleet
    lists: Lists


def make_services(settings: Settings, clock: Clock | None = None) -> Services:
    """Open the database and the store."""
    hub, clock, metrics = Hub(carried=is_postgres(settings)), clock or SystemClock(), Metrics()
    engine, traces = make_engine(settings), open_traces(settings)
    metrics.watch_pool(engine)
    database = Database(engine, hub, Observer(metrics, traces))
    metrics.add_collector(QueueCollector(database, clock.now))
    metrics.add_collector(CareCollector(database))
    metrics.add_collector(DiskCollector(settings.data_dir))
    fleet = Fleet(database, clock, settings)
    return Services(
        settings=settings,
        database=database,
        blobs=open_store(settings),
        keys=KeyRing(WrappingKey(settings.effective_wrapping_key_file)),
        hub=hub,
        clock=clock,
        metrics=metrics,
        traces=traces,
        readiness=Probe(),
        compiler=Compilers(database, clock),
        fleet=fleet,
        lists=Lists(database, clock, fleet),
    )
