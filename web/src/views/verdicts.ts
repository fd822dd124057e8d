/** What is said of a benchmark: how sure its median is, and whether it can be trusted. */

import type { Benchmark } from "../api/types";
import * as format from "../format";

/** Between which times the median lies with 95 %. */
export function intervalText({ verdict }: Benchmark): string {
  if (!verdict || verdict.interval_low === null || verdict.interval_high === null) return format.NOTHING;
  return `${format.milliseconds(verdict.interval_low)} to ${format.milliseconds(verdict.interval_high)}`;
}

/** Of one that failed, why. */
export function trustText({ verdict, failure }: Benchmark): string {
  if (failure) return failure.detail;
  if (!verdict) return format.NOTHING;
  return verdict.stable ? "stable" : `not stable: ${verdict.reasons.join(", ").replaceAll("_", " ")}`;
}
