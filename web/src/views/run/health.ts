/** How hot the device was while it trained, and from which step on it slowed itself down. Pure functions: what a device
 *  sends may be anything. */

import type { Run } from "../../api/types";

/** One reading during the training; `step` is the last one that was made by then. */
export interface Felt {
  readonly step: number;
  /** Degrees Celsius. */
  readonly celsius: number | null;
  readonly throttled: boolean;
}

type Health = NonNullable<Run["report"]>["health"];

/** The readings that say at which step they were made, in order; agents of before say of none. */
export function feltDuring(health: Health | null | undefined): Felt[] {
  const samples: unknown = health?.["samples"];
  if (!Array.isArray(samples)) return [];
  const found = samples.flatMap((one: unknown): Felt[] => {
    if (typeof one !== "object" || one === null) return [];
    const { step, temperature_c: celsius, throttled } = one as Record<string, unknown>;
    if (typeof step !== "number" || !Number.isSafeInteger(step) || step < 0) return [];
    const known = typeof celsius === "number" && Number.isFinite(celsius);
    return [{ step, celsius: known ? celsius : null, throttled: throttled === true }];
  });
  return found.sort((a, b) => a.step - b.step);
}

/** The step during which it was first seen to slow itself down; null where that was never, or is not known. */
export function throttledFrom(felt: readonly Felt[]): number | null {
  const first = felt.find(({ throttled }) => throttled);
  return first ? first.step + 1 : null;
}

/** For each step that is drawn, how hot it was; undefined where nothing was read. Of several readings the hottest. */
export function alongSteps(felt: readonly Felt[], steps: readonly number[], marked: boolean): (number | undefined)[] {
  const values = new Array<number | undefined>(steps.length).fill(undefined);
  let at = 0;
  for (const { step, celsius, throttled } of felt) {
    while (at + 1 < steps.length && (steps[at + 1] ?? Infinity) <= step) at += 1;
    if (celsius === null || (marked && !throttled)) continue;
    values[at] = Math.max(celsius, values[at] ?? -Infinity);
  }
  return values;
}
