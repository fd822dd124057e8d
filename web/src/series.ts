/** Series of a run: merging steps as they arrive, smoothing, and the marks of a sample. */

import type { Step } from "./api/types";

/** Both lists ordered by step, each step once; a newer record of a step replaces the older. */
export function mergeSteps(known: readonly Step[], added: readonly Step[]): Step[] {
  const lastKnown = known.at(-1)?.step ?? -Infinity;
  const ordered = added.every((step, index) => step.step > (index === 0 ? lastKnown : (added[index - 1]?.step ?? 0)));
  if (ordered) return [...known, ...added];
  const byStep = new Map([...known, ...added].map((step) => [step.step, step]));
  return [...byStep.values()].sort((a, b) => a.step - b.step);
}

/**
 * Exponential mean of the finite values at every point, each counting `1 - weight` times as much as the one before it; 0
 * leaves them as they are. The first values are not drawn to zero: the mean is of what was seen (Adam's correction).
 */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  let sum = 0;
  let seen = 0;
  return values.map((value) => {
    if (value !== null && Number.isFinite(value)) {
      sum = weight * sum + (1 - weight) * value;
      seen = weight * seen + (1 - weight);
    }
    return seen === 0 ? null : sum / seen;
  });
}

export interface Bin {
  readonly from: number;
  readonly to: number;
  readonly count: number;
}

/** Counts in `bins` equal parts from the least value to `most`; what is above counts in the last one. */
export function histogram(values: readonly number[], bins: number, most: number): Bin[] {
  if (values.length === 0) return [];
  const least = values.reduce((low, value) => Math.min(low, value), Infinity);
  const width = Math.max((most - least) / bins, Number.EPSILON);
  const counts = new Array<number>(bins).fill(0);
  for (const value of values) {
    const place = Math.min(bins - 1, Math.floor((value - least) / width));
    counts[place] = (counts[place] ?? 0) + 1;
  }
  return counts.map((count, index) => ({ from: least + index * width, to: least + (index + 1) * width, count }));
}

/** The step times that were measured, in milliseconds. */
export function times(steps: readonly Step[]): number[] {
  return steps.map((step) => step.ms).filter((ms) => ms !== null);
}

/** Quantile `q` of `values` by linear interpolation (NumPy's default); null for none. */
export function quantile(values: readonly number[], q: number): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const position = q * (sorted.length - 1);
  const below = Math.floor(position);
  const low = sorted[below] ?? 0;
  const high = sorted[Math.min(below + 1, sorted.length - 1)] ?? low;
  return low + (high - low) * (position - below);
}
