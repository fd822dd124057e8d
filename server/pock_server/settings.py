"""Everything an operator can choose, read from `POCK_*` variables; the defaults are the embedded service."""

import os
import re
import sys
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from pock_server.http.guard import ConnectionLimits, networks
from pock_server.secret_files import SecretFiles

_ADDRESSES = {
    "public_url": "https://pock.example",
    "store_endpoint": "http://host:9000",
    "otlp_endpoint": "http://host:4318",
    "broker_url": "redis://:password@host:6379/0",
}
"""Settings that are addresses, and what one looks like."""


class UnusableSetting(ValueError):
    """A setting that has the right form, and cannot be used; the message says which one, why, and what to do."""

    @staticmethod
    def place(variable: str, path: Path, reason: str) -> "UnusableSetting":
        """A folder or file that cannot be made, or where this user may not write."""
        return UnusableSetting(
            f"{variable} leads to {path}, which cannot be used: {reason}; name a place where this user may write"
        )


class Settings(BaseSettings):
    """One immutable value per process; `POCK_DATA_DIR=/srv/pock` sets `data_dir`, and so on.

    A value may lie in a file of the folder `POCK_SECRETS_DIR` (see `secret_files`).
    """

    model_config = SettingsConfigDict(env_prefix="POCK_", frozen=True, extra="ignore")

    secrets_dir: str = Field(
        default="", description="Folder with files that are settings, such as `pock_database_url`; empty means none."
    )
    data_dir: Path = Field(default=Path("pock-data"), description="Database, blobs and keys of the embedded service.")
    database_url: str = Field(
        default="",
        repr=False,
        description="`postgresql://user:password@host/name`; empty means SQLite inside the data folder.",
    )
    database_connections: int = Field(
        default=20, ge=2, le=500, description="Connections to PostgreSQL that this process holds at most."
    )
    database_timeout_seconds: float = Field(
        default=15,
        ge=1,
        le=3600,
        description="Longest wait for a connection, a statement or a lock of PostgreSQL.",
    )
    store_url: str = Field(default="", description="Object store URL; empty means a folder inside the data folder.")
    store_endpoint: str = Field(default="", description="Address of an S3 that is not Amazon's; `http://` is allowed.")
    store_region: str = Field(default="", description="S3 region; empty means that of the `AWS_*` variables.")
    store_access_key: str = Field(default="", description="S3 access key; empty means that of the `AWS_*` variables.")
    store_secret_key: str = Field(default="", repr=False, description="S3 secret key; empty as before.")
    wrapping_key_file: str = Field(
        default="", description="Encrypts signing keys in the database; empty: `keys/wrapping.key` in the data folder."
    )
    root_key_file: str = Field(
        default="", description="Signs trust documents, may be absent; empty: `keys/root.pem` in the data folder."
    )
    web_dist: Path = Field(default=Path(__file__).parent / "web_dist", description="The built dashboard.")

    public_url: str = Field(
        default="",
        description="Address that browsers see, e.g. https://pock.example; empty means the one that they ask for.",
    )
    browser_session_seconds: float = Field(
        default=604_800, gt=0, le=7_776_000, description="Longest life of a browser's session."
    )
    browser_idle_seconds: float = Field(
        default=43_200, gt=0, le=7_776_000, description="A browser's session that is unused for this long ends."
    )
    audit_days: float = Field(default=400, gt=0, le=36_500, description="Entries of the audit log are kept this long.")

    runner: Literal["inprocess", "celery", "none"] = Field(
        default="inprocess", description="Who builds: this process, `pock-server worker` by way of a broker, or nobody."
    )
    broker_url: str = Field(
        default="",
        repr=False,
        description="`redis://:password@host:6379/0` of the Redis that carries messages to build workers.",
    )
    worker_command: tuple[str, ...] = Field(
        default=(sys.executable, "-m", "pock_server.worker"),
        description="Child command; `build FOLDER` or `describe` is appended.",
    )
    sandbox: Literal["auto", "bubblewrap", "namespaces", "off"] = Field(
        default="auto", description="What confines builds; auto takes what works, and as root insists on something."
    )
    sandbox_uid: int = Field(default=65534, gt=0, description="The user that builds become when the service is root.")
    sandbox_readable: tuple[str, ...] = Field(default=(), description="Further folders that builds may read.")
    build_memory_bytes: int = Field(default=0, ge=0, description="Of a build; 0: its part of 60 % of the machine's.")
    build_processes: int = Field(default=512, gt=0, description="Processes and threads of the user that builds are.")
    build_open_files: int = Field(
        default=8192, gt=0, description="Open files of each process of a build; a C library is linked of 2,000."
    )
    build_cache_bytes: int = Field(default=2 << 30, gt=0, description="Compiled things kept for each workspace.")
    build_cache_dir: str = Field(default="", description="Where they are kept; empty means in the data folder.")
    share_kernels: bool = Field(
        default=True, description="Whether workers share what a workspace's builds compile through the object store."
    )
    compiler_cache_dir: str = Field(default="", description="C libraries for all builds; empty: pockengine's cache.")
    work_dir: str = Field(default="", description="Folders of running builds; empty means one in the data folder.")
    parallel_builds: int = Field(default=1, ge=1, description="Builds that run at once in this process.")
    builds_per_workspace: int = Field(default=4, ge=1, description="Builds of one workspace that run at once.")
    check_processes: int = Field(
        default=2,
        ge=1,
        description="Models kept in memory to answer at once what a recipe takes, by each process; as many again where "
        "it is asked for approximations.",
    )
    build_timeout_seconds: float = Field(default=1800, gt=0, description="A build that takes longer fails.")
    search_timeout_seconds: float = Field(
        default=7200, gt=0, description="A search for what to train that takes longer fails."
    )
    build_disk_bytes: int = Field(default=32 << 30, gt=0, description="Most that a build may have on disk at once.")
    max_artifact_bytes: int = Field(default=4 << 30, gt=0, description="Largest artifact; the format ends at 4 GiB.")
    build_lease_seconds: float = Field(
        default=60, gt=0, description="A runner silent for this long has lost its build."
    )

    tuning_devices: int = Field(default=5, ge=1, le=100, description="Devices that try a pack of kernels at most.")
    tuning_parallel: int = Field(default=2, ge=1, le=100, description="Devices that try a pack at once.")
    tuning_seconds_per_day: float = Field(default=3600, ge=0, description="Trials of one device in 24 hours.")
    tuning_patience_seconds: float = Field(
        default=86_400, gt=0, description="A pack for which no device comes is given up after so long."
    )
    tuning_emulated: bool = Field(default=False, description="Whether times of emulated devices count.")

    heartbeat_seconds: float = Field(default=15, gt=0, description="Shortest time between two heartbeats of a device.")
    heartbeats_per_second: float = Field(default=50, gt=0, description="Upper bound for the whole fleet.")
    poll_seconds: float = Field(default=25, gt=0, description="How long a request for work may wait.")
    lease_seconds: float = Field(
        default=300, gt=0, description="A run whose lease is not renewed for this long is lost."
    )
    max_attempts: int = Field(default=3, ge=1, description="Times a run or build is tried before it fails.")
    paused_lease_seconds: float = Field(
        default=3600, gt=0, description="A run that a device's policy pauses is given up when it stays silent so long."
    )
    max_pause_seconds: float = Field(
        default=604_800, ge=0, description="Pauses of a run beyond this, in all, count towards its wall-clock limit."
    )
    session_seconds: float = Field(default=3600, gt=0, description="Life of a device's session token.")
    queue_deadline_seconds: float = Field(default=604_800, gt=0, description="Longest wait of a run that names none.")
    run_deadline_seconds: float = Field(default=3600, gt=0, description="Wall-clock limit of a run that names none.")
    sweep_seconds: float = Field(default=5, gt=0, description="Time between two searches for lost leases.")
    aggregation_timeout_seconds: float = Field(
        default=1800, gt=0, description="An aggregation of a federation's round that takes longer is tried again."
    )

    log_format: Literal["", "json", "text"] = Field(
        default="", description="Form of log lines on stderr; empty means text on a terminal, JSON otherwise."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Log lines below this level are left out."
    )
    otlp_endpoint: str = Field(
        default="", description="`http://host:4318` of an OpenTelemetry collector; empty means no traces."
    )
    trace_share: float = Field(default=1, ge=0, le=1, description="Share of the requests that begin a trace.")
    metrics_token: str = Field(
        default="",
        repr=False,
        description="Whoever sends it may read `/metrics`; empty means peers on this machine may.",
    )
    metrics_port: int | None = Field(
        default=None, ge=1, le=65535, description="Serve the metrics without a token on a port of their own, too."
    )
    metrics_address: str = Field(default="127.0.0.1", description="Address of that port.")

    max_json_bytes: int = Field(default=4 << 20, gt=0, description="Largest JSON request body.")
    max_stranger_bytes: int = Field(
        default=64 << 10, gt=0, description="Largest body of who has no key or session yet: enrolment, a new session."
    )
    max_buffered_bytes: int = Field(default=256 << 20, ge=1 << 20, description="All bodies in memory at once.")
    max_blob_bytes: int = Field(default=64 << 30, gt=0, description="Largest upload.")
    upload_part_bytes: int = Field(default=8 << 20, gt=0, description="Bytes of an upload made durable at once.")

    threads: int = Field(default=24, ge=4, description="Requests that wait for database or store at once.")
    max_connections: int = Field(default=10_000, ge=1, description="Open connections of a process.")
    max_connections_per_address: int = Field(
        default=4000, ge=1, description="Open connections from one address; a /64 counts as one with IPv6."
    )
    max_header_bytes: int = Field(default=16 << 10, ge=1024, description="A request's address and headers together.")
    header_seconds: float = Field(default=10, gt=0, description="Time for a request's head to arrive.")
    slow_seconds: float = Field(default=30, gt=0, description="Delay allowed to bodies and to readers of answers.")
    min_bytes_per_second: float = Field(default=1024, gt=0, description="Slowest body and slowest reader after that.")
    trusted_proxies: str = Field(
        default="", description="Addresses and networks, with commas, whose X-Forwarded-For and -Proto are believed."
    )
    address_rate: float = Field(default=1000, gt=0, description="Requests a second of one address, for ever.")
    address_burst: int = Field(default=10_000, ge=1, description="Requests of one address at once, after a pause.")
    failure_rate: float = Field(default=10, gt=0, description="Wrong credentials a second of one address.")
    failure_burst: int = Field(default=500, ge=1, description="Wrong credentials of one address at once.")
    key_rate: float = Field(default=100, gt=0, description="Requests a second of one API key.")
    key_burst: int = Field(default=2000, ge=1, description="Requests of one API key at once.")
    device_rate: float = Field(default=20, gt=0, description="Requests a second of one device.")
    device_burst: int = Field(default=400, ge=1, description="Requests of one device at once.")
    webhook_networks: str = Field(
        default="",
        description="Private addresses and networks, with commas, that webhooks may go to; all public ones they may.",
    )
    quota_webhooks: int = Field(default=100, ge=0, description="Webhooks of a workspace.")
    quota_bytes: int = Field(default=1 << 40, ge=0, description="Bytes that a workspace may store and announce.")
    quota_models: int = Field(default=10_000, ge=0, description="Models of a workspace.")
    quota_datasets: int = Field(default=10_000, ge=0, description="Datasets of a workspace.")
    quota_recipes: int = Field(default=10_000, ge=0, description="Recipes of a workspace.")
    quota_open_rollouts: int = Field(default=100, ge=0, description="Rollouts of a workspace that are not over.")
    quota_agent_releases: int = Field(default=1000, ge=0, description="Agent releases of a workspace.")
    quota_devices: int = Field(default=100_000, ge=0, description="Devices of a workspace that are not revoked.")
    quota_open_builds: int = Field(default=1000, ge=0, description="Builds of a workspace that are not over.")
    quota_open_runs: int = Field(default=100_000, ge=0, description="Runs of a workspace that are not over.")
    quota_schedules: int = Field(default=100, ge=0, description="Schedules of a workspace.")
    quota_open_campaigns: int = Field(default=100, ge=0, description="Campaigns of a workspace that are not over.")
    quota_open_federations: int = Field(default=100, ge=0, description="Federations of a workspace that are not over.")
    quota_keys: int = Field(default=1000, ge=0, description="API keys of a workspace that are valid.")
    quota_tokens: int = Field(default=10_000, ge=0, description="Unused enrolment tokens of a workspace.")
    quota_open_uploads: int = Field(default=1000, ge=0, description="Unfinished uploads of a workspace.")
    grace_hours: float = Field(default=24, ge=1, description="Unused blobs stay at least this long.")
    collect_hours: float = Field(default=6, ge=0, description="Time between two collections of unused blobs; 0 never.")
    keep_artifacts_days: float = Field(default=0, ge=0, description="Artifacts unused for so long go; 0 keeps them.")
    keep_logs_days: float = Field(default=0, ge=0, description="Logs of what ended so long ago go; 0 keeps them.")
    thin_steps_days: float = Field(default=90, ge=0, description="Steps of older runs are thinned; 0 keeps them all.")
    scrub_days: float = Field(default=30, ge=0, description="Each stored blob is hashed this often; 0 never.")
    scrub_bytes_per_second: int = Field(default=16 << 20, gt=0, description="How fast blobs are hashed for that.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments come first, then variables, then files."""
        name = "secrets_dir"
        folder = init_settings().get(name) or env_settings().get(name) or ""
        return init_settings, env_settings, SecretFiles(settings_cls, folder)

    @field_validator("trusted_proxies", "webhook_networks")
    @classmethod
    def _are_networks(cls, text: str) -> str:
        networks(text)
        return text

    @field_validator(*_ADDRESSES)
    @classmethod
    def _is_address(cls, text: str, info: ValidationInfo) -> str:
        example = _ADDRESSES[str(info.field_name)]
        schemes = ("redis", "rediss") if example.startswith("redis") else ("http", "https")
        try:
            found = urlsplit(text)
            right = found.scheme in schemes and bool(found.hostname) and found.port != 0 and not re.search(r"\s", text)
        except ValueError:  # a port that is no number; the text may be part of a password, so it is not repeated
            right = False
        if info.field_name == "broker_url":
            right = right and re.fullmatch(r"/?\d*", found.path) is not None
        elif info.field_name == "public_url":
            right = right and not (found.path.strip("/") or found.query or found.fragment)
        if text and not right:
            raise ValueError(f"this is not an address such as {example}")
        return text

    @property
    def connection_limits(self) -> ConnectionLimits:
        """What connections may cost."""
        return ConnectionLimits(
            connections=self.max_connections,
            per_address=self.max_connections_per_address,
            header_bytes=self.max_header_bytes,
            header_seconds=self.header_seconds,
            slow_seconds=self.slow_seconds,
            bytes_per_second=self.min_bytes_per_second,
            trusted=networks(self.trusted_proxies),
        )

    @property
    def effective_database_url(self) -> str:
        """The configured database, or SQLite in the data folder."""
        return self.database_url or f"sqlite:///{self.data_dir.resolve() / 'pock.sqlite3'}"

    @property
    def effective_compiler_cache_dir(self) -> Path:
        """The configured folder for what is compiled for everybody, or the compiler's own cache of this user."""
        if self.compiler_cache_dir:
            return Path(self.compiler_cache_dir).resolve()
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").resolve() / "pockengine"

    @property
    def effective_build_cache_dir(self) -> Path:
        """The configured folder for what builds compile, or the one in the data folder."""
        return Path(self.build_cache_dir or self.data_dir / "build-cache").resolve()

    @property
    def effective_wrapping_key_file(self) -> Path:
        """The configured wrapping key, or the data folder's."""
        return Path(self.wrapping_key_file) if self.wrapping_key_file else self.data_dir / "keys" / "wrapping.key"

    @property
    def effective_root_key_file(self) -> Path:
        """The configured root key, or the data folder's; there is none while it is kept offline."""
        return Path(self.root_key_file) if self.root_key_file else self.data_dir / "keys" / "root.pem"

    @property
    def legacy_signing_key_file(self) -> Path:
        """Where services of before trust documents kept their one signing key."""
        return self.data_dir / "keys" / "signing.pem"

    @property
    def effective_work_dir(self) -> Path:
        """The configured folder for running builds, or the one in the data folder."""
        return Path(self.work_dir or self.data_dir / "work").resolve()
