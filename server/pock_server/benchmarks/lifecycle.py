"""Which states a benchmark may go through."""

from pock_server.benchmarks.schemas import BenchmarkState
from pock_server.benchmarks.tables import BenchmarkRecord
from pock_server.lifecycle import Lifecycle

_ENDS = frozenset({BenchmarkState.SUCCEEDED, BenchmarkState.FAILED, BenchmarkState.CANCELLED})

BENCHMARK_LIFECYCLE = Lifecycle(
    noun="benchmark",
    row_class=BenchmarkRecord,
    transitions={
        BenchmarkState.QUEUED: frozenset({BenchmarkState.RUNNING, *_ENDS}),
        BenchmarkState.RUNNING: frozenset({BenchmarkState.QUEUED, *_ENDS}),  # queued: the device was lost
        BenchmarkState.SUCCEEDED: frozenset(),
        BenchmarkState.FAILED: frozenset(),
        BenchmarkState.CANCELLED: frozenset(),
    },
)

OPEN = (BenchmarkState.QUEUED, BenchmarkState.RUNNING)
"""States that a benchmark will still leave."""
