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

/** Mean over the `window` latest finite values at every point; null where there is none yet. */
export function movingMean(values: readonly (number | null)[], window: number): (number | null)[] {
  return values.map((_, index) => {
    const recent = values
      .slice(Math.max(0, index - window + 1), index + 1)
      .filter((value): value is number => value !== null && Number.isFinite(value));
    return recent.length === 0 ? null : recent.reduce((sum, value) => sum + value, 0) / recent.length;
  });
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
