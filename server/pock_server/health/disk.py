"""What `/metrics` shows of the disk that holds the data folder."""

import os
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector


class DiskCollector(Collector):
    """Asks the file system whenever it is asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        """The gauge; nothing while there is no such folder."""
        try:
            found = os.statvfs(self._folder)
        except OSError:
            return
        free = float(found.f_bavail * found.f_frsize)
        yield GaugeMetricFamily("pock_data_free_bytes", "Room on the disk of the data folder.", free)
