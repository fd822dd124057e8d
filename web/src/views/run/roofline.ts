/** Kernels of a profiled run against the least time that each could take. Pure functions.
 *
 * What a device can do at most is not known, so the ceilings are the highest rates that kernels of the same run reached:
 * operations and bytes a millisecond. A kernel cannot take less than its operations, or its bytes, at these. */

import type { KernelTime } from "../../api/types";

/** Of the whole time: what takes less is too short to tell a rate. */
const LEAST_SHARE = 0.005;

export type Bound = "arithmetic" | "memory";

export interface Placed {
  readonly kernel: KernelTime;
  readonly ms: number;
  /** Null where the report has neither operations nor bytes. */
  readonly leastMs: number | null;
  readonly bound: Bound | null;
}

export interface Roofline {
  readonly kernels: readonly Placed[];
  /** A millisecond; null where nothing tells. */
  readonly flops: number | null;
  readonly bytes: number | null;
  readonly totalMs: number;
  /** Beyond the least times, of all kernels that have one. */
  readonly lostMs: number;
}

export function rooflineOf(kernels: readonly KernelTime[]): Roofline {
  const timed = kernels.map((kernel) => ({ kernel, ms: positive(kernel.ms) ?? 0 }));
  const totalMs = timed.reduce((sum, { ms }) => sum + ms, 0);
  const long = timed.filter(({ ms }) => ms > 0 && ms >= LEAST_SHARE * totalMs);
  const flops = highest(long.map(({ kernel, ms }) => (positive(kernel.flops) ?? 0) / ms));
  const bytes = highest(long.map(({ kernel, ms }) => (positive(kernel.bytes) ?? 0) / ms));
  const placed = timed.map(({ kernel, ms }): Placed => {
    const computing = flops === null ? 0 : (positive(kernel.flops) ?? 0) / flops;
    const moving = bytes === null ? 0 : (positive(kernel.bytes) ?? 0) / bytes;
    const least = Math.max(computing, moving);
    if (least === 0) return { kernel, ms, leastMs: null, bound: null };
    return { kernel, ms, leastMs: Math.min(least, ms), bound: computing >= moving ? "arithmetic" : "memory" };
  });
  const lostMs = placed.reduce((sum, { ms, leastMs }) => sum + (leastMs === null ? 0 : ms - leastMs), 0);
  return { kernels: placed, flops, bytes, totalMs, lostMs };
}

export type Order = "time" | "lost";

export function ordered(kernels: readonly Placed[], by: Order): Placed[] {
  const key = ({ ms, leastMs }: Placed) => (by === "time" ? ms : leastMs === null ? -1 : ms - leastMs);
  return [...kernels].sort((a, b) => key(b) - key(a));
}

/** The kernels of one phase of the step, in order. */
export interface Part {
  /** Null for kernels of which nobody knows it. */
  readonly phase: KernelTime["phase"] | null;
  readonly kernels: readonly Placed[];
  readonly ms: number;
}

const PHASES = ["forward", "backward", "update", null] as const;

/** The phases that there are, in the order in which a step goes through them. */
export function partsOf({ kernels }: Roofline, by: Order): Part[] {
  return PHASES.map((phase) => {
    const mine = kernels.filter(({ kernel }) => (kernel.phase ?? null) === phase);
    return { phase, kernels: ordered(mine, by), ms: mine.reduce((sum, { ms }) => sum + ms, 0) };
  }).filter((part) => part.kernels.length > 0);
}

function positive(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : null;
}

function highest(rates: readonly number[]): number | null {
  const most = rates.reduce((high, rate) => (rate > high ? rate : high), 0);
  return most > 0 ? most : null;
}
