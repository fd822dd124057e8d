"""Benchmarks over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from sqlalchemy import ColumnElement

from pock_server.benchmarks import service
from pock_server.benchmarks.lifecycle import BENCHMARK_LIFECYCLE
from pock_server.benchmarks.repository import Benchmarks
from pock_server.benchmarks.schemas import BenchmarkIn, BenchmarkOut, BenchmarkPage, BenchmarkState, ComparisonOut
from pock_server.benchmarks.tables import BenchmarkRecord
from pock_server.db import globs
from pock_server.dependencies import Reader, RunWriter, ServicesDep
from pock_server.events.stream import add_event_stream
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.quotas.service import Quota, check

router = APIRouter(prefix="/benchmarks", tags=["benchmarks"], responses=PROBLEMS)


@router.post("", status_code=202)
def create_benchmark(body: BenchmarkIn, caller: RunWriter, services: ServicesDep, once: Once) -> BenchmarkOut:
    """Have a device measure a build: repeats, each a process, with pauses in between."""
    now = services.clock.now()
    with services.database.write(caller.actor) as unit:
        row = service.request_benchmark(unit, caller.workspace_id, body, services.settings, now)
        check(unit, services.settings, caller.workspace_id, now, Quota.RUNS)
        return once(unit, service.show(Benchmarks(unit.session, caller.workspace_id), row), 202)


def _wanted(
    model: Annotated[
        str | None, Query(max_length=globs.MAX_CHARACTERS, description="A model's name; `*`, `?`.")
    ] = None,
    target: Annotated[str | None, Query(max_length=100)] = None,
    device_id: Annotated[Id | None, Query()] = None,
    build_id: Annotated[Id | None, Query()] = None,
    state: Annotated[BenchmarkState | None, Query()] = None,
) -> list[ColumnElement[bool]]:
    """What is listed, as conditions."""
    wanted = (
        (BenchmarkRecord.target, target),
        (BenchmarkRecord.device_id, device_id),
        (BenchmarkRecord.build_id, build_id),
        (BenchmarkRecord.state, state),
    )
    named = [] if model is None else [globs.matches(BenchmarkRecord.model_name.expression, model)]
    return [*(column == value for column, value in wanted if value is not None), *named]


@router.get("")
def list_benchmarks(
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    wanted: Annotated[list[ColumnElement[bool]], Depends(_wanted)],
) -> BenchmarkPage:
    """List benchmarks, without their repeats."""
    with services.database.read() as session:
        found = Benchmarks(session, caller.workspace_id).page(page, *wanted)
        return BenchmarkPage(items=service.show_briefly(found.rows), next_cursor=found.next_cursor)


@router.get("/{benchmark_id}")
def get_benchmark(benchmark_id: Id, caller: Reader, services: ServicesDep) -> BenchmarkOut:
    """One benchmark."""
    with services.database.read() as session:
        benchmarks = Benchmarks(session, caller.workspace_id)
        return service.show(benchmarks, benchmarks.require(benchmark_id))


@router.get("/{benchmark_id}/compare")
def compare_benchmark(
    benchmark_id: Id,
    caller: Reader,
    services: ServicesDep,
    other: Annotated[Id, Query(alias="with", description="The other benchmark.")],
) -> ComparisonOut:
    """One benchmark beside another."""
    with services.database.read() as session:
        benchmarks = Benchmarks(session, caller.workspace_id)
        return service.compare_with(benchmarks, benchmarks.require(benchmark_id), benchmarks.require(other))


@router.post("/{benchmark_id}/cancel")
def cancel_benchmark(benchmark_id: Id, caller: RunWriter, services: ServicesDep) -> BenchmarkOut:
    """Cancel a benchmark that is not over."""
    with services.database.write(caller.actor) as unit:
        row = service.cancel_benchmark(unit, caller.workspace_id, benchmark_id, services.clock.now())
        return service.show(Benchmarks(unit.session, caller.workspace_id), row)


@router.delete("/{benchmark_id}", status_code=204)
def delete_benchmark(benchmark_id: Id, caller: RunWriter, services: ServicesDep) -> None:
    """Forget a benchmark that is over; its run stays."""
    with services.database.write(caller.actor) as unit:
        service.delete_benchmark(unit, caller.workspace_id, benchmark_id, services.clock.now())


add_event_stream(router, Benchmarks, BENCHMARK_LIFECYCLE, "`state`")
