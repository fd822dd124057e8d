/** What a device's runs and benchmarks measured, in the order of time. Pure functions. */

import type { Benchmark, Run } from "../../../api/types";
import * as format from "../../../format";
import { runText } from "../../../names";

/** Null is what was not measured. */
export interface Reading {
  readonly runId: string;
  readonly name: string;
  readonly createdAt: string;
  /** Median of a training's steps. */
  readonly stepMs: number | null;
  /** The verdict of a benchmark. */
  readonly benchmarkMs: number | null;
  readonly peakBytes: number | null;
  readonly plannedBytes: number | null;
  /** Degrees Celsius. */
  readonly hottest: number | null;
  readonly throttled: boolean;
}

/** Of the runs and benchmarks that told something, the oldest first. */
export function readings(runs: readonly Run[], benchmarks: readonly Benchmark[]): Reading[] {
  const medians = new Map(benchmarks.map((one) => [one.run_id, one.verdict?.median_ms ?? null]));
  const known = new Set(runs.map((run) => run.id));
  const others = benchmarks.filter((one) => !known.has(one.run_id)).map(ofBenchmark);
  return [...runs.map((run) => ofRun(run, medians.get(run.id) ?? null)), ...others]
    .filter(tellsSomething)
    .sort((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
}

function ofRun(run: Run, benchmarkMs: number | null): Reading {
  const { train, health } = run.report ?? {};
  return {
    runId: run.id,
    name: runText(run),
    createdAt: run.created_at,
    stepMs: number(train?.step_ms?.median),
    benchmarkMs,
    peakBytes: number(train?.peak_rss_bytes),
    plannedBytes: number(train?.predicted_peak_bytes),
    hottest: number(health?.["max_temperature_c"]),
    throttled: health?.["throttled"] === true,
  };
}

function ofBenchmark(one: Benchmark): Reading {
  return {
    runId: one.run_id,
    name: one.build_name,
    createdAt: one.created_at,
    stepMs: null,
    benchmarkMs: one.verdict?.median_ms ?? null,
    peakBytes: null,
    plannedBytes: null,
    hottest: null,
    throttled: false,
  };
}

/** A plan alone is no measurement. */
function tellsSomething(one: Reading): boolean {
  return one.throttled || [one.stepMs, one.benchmarkMs, one.peakBytes, one.hottest].some((value) => value !== null);
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

/** One reading in words. */
export function sentence(one: Reading): string {
  const parts = [
    one.stepMs !== null && `step ${format.milliseconds(one.stepMs)}`,
    one.benchmarkMs !== null && `benchmark ${format.milliseconds(one.benchmarkMs)}`,
    one.peakBytes !== null && `peak ${format.bytes(one.peakBytes)}`,
    one.peakBytes !== null && one.plannedBytes !== null && `planned ${format.bytes(one.plannedBytes)}`,
    one.hottest !== null && `up to ${format.celsius(one.hottest)}`,
    one.throttled && "throttled",
  ];
  return parts.filter(Boolean).join(", ");
}
