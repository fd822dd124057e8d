/** The parts of a predicted peak, which sum to it. */

import type { Summary } from "../api/types";
import { PARTS } from "../scheme/estimate";

export interface Part {
  readonly key: (typeof PARTS)[number]["key"];
  readonly name: string;
  readonly bytes: number;
}

/** A summary names all parts but the runtime, which is what is left of the peak. */
export function partsOf(summary: Summary, peak: number): Part[] {
  let left = peak;
  return PARTS.map(({ key, name }) => {
    const bytes = key === "runtime_bytes" ? left : (summary[key] ?? 0);
    left -= bytes;
    return { key, name, bytes };
  });
}
