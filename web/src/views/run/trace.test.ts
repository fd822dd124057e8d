import { expect, test } from "vitest";
import { traceOf } from "./trace";

test("a trace has the kernels of a step one behind the other, in microseconds", () => {
  const kernels = [
    { name: "conv", kernel: "k_1", node: 0, ms: 2, flops: 10, bytes: 20, phase: "forward" as const },
    { name: "", kernel: null, node: 1, ms: null, flops: null, bytes: null },
    { name: null, kernel: "k_2", node: 2, ms: 0.5, flops: 1, bytes: 2, phase: "backward" as const },
  ];
  const { traceEvents, displayTimeUnit } = JSON.parse(traceOf("net on pi", kernels));
  expect(displayTimeUnit).toBe("ms");
  expect(traceEvents[0]).toMatchObject({ ph: "M", name: "process_name", args: { name: "net on pi" } });
  const timed = traceEvents.slice(2);
  expect(timed.map((one: { name: string; ts: number; dur: number }) => [one.name, one.ts, one.dur])).toEqual([
    ["conv", 0, 2000],
    ["", 2000, 0],
    ["k_2", 2000, 500],
  ]);
  expect(timed[0]).toMatchObject({ ph: "X", pid: 1, tid: 1, cat: "forward", args: { kernel: "k_1", flops: 10 } });
  expect(timed[1].cat).toBe("unknown");
});
