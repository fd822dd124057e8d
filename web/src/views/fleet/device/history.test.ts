import { expect, test } from "vitest";
import type { Benchmark, Run } from "../../../api/types";
import { readings, sentence } from "./history";

const run = (id: string, report: unknown): Run =>
  ({
    id,
    created_at: `2026-11-2${id}T10:00:00Z`,
    entry: "train",
    report,
    model: { name: "net" },
    recipe: null,
    build: { name: "net" },
    dataset: null,
  }) as unknown as Run;
const benchmark = (runId: string, median: number | null): Benchmark =>
  ({
    run_id: runId,
    build_name: "net for host",
    created_at: `2026-11-2${runId}T10:00:00Z`,
    verdict: median === null ? null : { median_ms: median },
  }) as unknown as Benchmark;

test("what told something comes oldest first", () => {
  const found = readings(
    [
      run("4", { health: { max_temperature_c: 84.2, throttled: true } }),
      run("3", null),
      run("2", { health: { throttled: true } }),
      run("1", { health: { max_temperature_c: 51, throttled: false } }),
      run("0", { health: { max_temperature_c: "hot" }, train: { predicted_peak_bytes: 4096 } }),
    ],
    [],
  );
  expect(found.map((one) => [one.runId, one.hottest, one.throttled])).toEqual([
    ["1", 51, false],
    ["2", null, true],
    ["4", 84.2, true],
  ]);
});

test("a benchmark stands at its run, and alone where the run is not among the latest", () => {
  const found = readings(
    [run("3", { train: { step_ms: { median: 11 } } })],
    [benchmark("3", 10.5), benchmark("2", 12), benchmark("1", null)],
  );
  expect(found.map((one) => [one.runId, one.stepMs, one.benchmarkMs])).toEqual([
    ["2", null, 12],
    ["3", 11, 10.5],
  ]);
});

test("a reading in words tells what was measured only", () => {
  const [found] = readings(
    [run("1", { train: { step_ms: { median: 11 }, peak_rss_bytes: 2048, predicted_peak_bytes: 1024 } })],
    [],
  );
  expect(found && sentence(found).replaceAll("\u00a0", " ")).toBe("step 11.0 ms, peak 2.00 KiB, planned 1.00 KiB");
});
