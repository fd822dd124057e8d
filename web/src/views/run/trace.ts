/** A profile in the trace-event format, which ui.perfetto.dev and chrome://tracing show. */

import type { KernelTime } from "../../api/types";

const PLACE = { pid: 1, tid: 1 };
/** Microseconds, in which the format counts. */
const A_MS = 1000;

interface TraceEvent {
  readonly ph: "M" | "X";
  readonly name: string;
  readonly cat?: string;
  readonly ts?: number;
  readonly dur?: number;
  readonly args: Readonly<Record<string, unknown>>;
}

/** One step: each kernel with its median time, one behind the other, in the order in which the program calls them. */
export function traceOf(run: string, kernels: readonly KernelTime[]): string {
  const named = (name: string, value: string): TraceEvent => ({ ph: "M", name, args: { name: value } });
  const events = [named("process_name", run), named("thread_name", "one step")];
  let ts = 0;
  for (const { name, kernel, ms, flops, bytes, phase } of kernels) {
    const dur = (ms ?? 0) * A_MS;
    events.push({
      ph: "X",
      name: name ?? kernel ?? "?",
      cat: phase ?? "unknown",
      ts,
      dur,
      args: { kernel, flops, bytes },
    });
    ts += dur;
  }
  return JSON.stringify({ traceEvents: events.map((event) => ({ ...event, ...PLACE })), displayTimeUnit: "ms" });
}
