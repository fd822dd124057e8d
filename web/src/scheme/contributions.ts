/** What a search found that each layer brings: read from its result, which has a row for each parameter. */

import type { Row } from "./scheme";

/** Parts of the most that any layer brings, at which the heat becomes one shade darker. */
const SHADES = [0, 0.03, 0.15, 0.4, 0.7] as const;

export interface Brought {
  /** Of what training every layer brings, if it adds up. */
  readonly share: number;
  /** 0 is the palest of five. */
  readonly shade: number;
}

/** Parameter -> the most that training it, a share of it or an adapter beside it brings; what is no such result is
 *  empty. */
export function gainsOf(result: unknown): Map<string, number> {
  const units: unknown = typeof result === "object" && result !== null ? (result as { units?: unknown }).units : null;
  const found = new Map<string, number>();
  if (!Array.isArray(units)) return found;
  for (const unit of units as unknown[]) {
    if (typeof unit !== "object" || unit === null) continue;
    const { name, gains } = unit as Record<string, unknown>;
    if (typeof name !== "string" || !Array.isArray(gains)) continue;
    const known = (gains as unknown[]).filter((gain) => typeof gain === "number" && Number.isFinite(gain));
    found.set(
      name,
      (known as number[]).reduce((most, gain) => Math.max(most, gain), 0),
    );
  }
  return found;
}

/** Layer -> what it brings: the sum of its parameters. Layers that the search did not weigh are left out. */
export function broughtBy(rows: readonly Row[], gains: ReadonlyMap<string, number>): Map<string, Brought> {
  const sums = new Map<string, number>();
  for (const { name, parameters } of rows) {
    const known = parameters.flatMap((parameter) => gains.get(parameter.name) ?? []);
    if (known.length > 0)
      sums.set(
        name,
        known.reduce((sum, gain) => sum + gain, 0),
      );
  }
  const values = [...sums.values()];
  const total = values.reduce((sum, gain) => sum + gain, 0);
  const most = values.reduce((high, gain) => Math.max(high, gain), 0);
  if (total <= 0) return new Map();
  const shade = (gain: number) => SHADES.filter((from) => gain >= from * most).length - 1;
  return new Map([...sums].map(([name, gain]) => [name, { share: gain / total, shade: shade(gain) }]));
}
