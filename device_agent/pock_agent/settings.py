"""Every interval and limit of the agent in one place; tests shorten them."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Times in seconds, sizes in bytes."""

    poll_seconds: float = 25.0  # how long the service may hold a request for work
    poll_jitter_seconds: float = 1.0  # spreads the polls of a fleet that was answered at one moment
    request_timeout_seconds: float = 30.0
    backoff_base_seconds: float = 1.0
    backoff_cap_seconds: float = 60.0
    lease_renew_seconds: float = 60.0
    lease_valid_seconds: float = 300.0  # taken when the service's answer carries no Date to measure against
    lease_first_tries: int = 10
    download_tries: int = 10  # failures in a row without a single new byte
    download_mismatches: int = 3  # complete downloads with the wrong digest
    download_chunk_bytes: int = 256 * 1024
    disk_reserve_bytes: int = 16 * MIB  # left free for the agent's own records and the device's logs
    cache_bytes: int = 4096 * MIB  # blobs beyond this are dropped, least recently used first
    events_seconds: float = 1.0  # how often lines of the child go out
    events_batch: int = 200
    events_drain_seconds: float = 30.0
    health_seconds: float = 5.0
    health_samples: int = 360
    policy_seconds: float = 5.0  # between two looks at whether policies allow work
    metered_seconds: float = 30.0  # between two questions whether the network is metered: they start a program
    ledger_seconds: float = 30.0  # a power cut loses at most so much of what was counted
    pause_patience_seconds: float = 120.0  # for a model to finish its step and write a checkpoint
    max_starts: int = 3  # a job that was interrupted this often is reported as crashed
    max_breaks: int = 5  # of the connection to a phone that is there all the while, none long after the one before
    break_seconds: float = 600.0  # after so long without one, they are counted anew
    facts_every: int = 20  # heartbeats between two full reports of the device's facts
    bench_tries: int = 5  # of a benchmark that does not say how often
    bench_interval: float = 0.05  # a benchmark is stable when its confidence interval is within this of its median
    repeat_health_seconds: float = 1.0  # a repeat of a benchmark is short
    cool_down_look_seconds: float = 1.0  # how often a device that cools down is looked at
