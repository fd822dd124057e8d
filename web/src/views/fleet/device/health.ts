/** How hot a device became in its runs. Pure functions. */

import type { Run } from "../../../api/types";

export interface Reading {
  readonly run: Run;
  /** Degrees Celsius; null where the device has no sensor that it may read. */
  readonly hottest: number | null;
  readonly throttled: boolean;
}

/** Of the runs that told something, the oldest first; `runs` come newest first. */
export function readings(runs: readonly Run[]): Reading[] {
  return runs
    .flatMap((run): Reading[] => {
      const { max_temperature_c: hottest, throttled } = run.report?.health ?? {};
      const known = typeof hottest === "number" ? hottest : null;
      return known === null && throttled !== true ? [] : [{ run, hottest: known, throttled: throttled === true }];
    })
    .reverse();
}
