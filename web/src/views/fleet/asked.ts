/** What the address asks of the fleet, and the query of the service for it. */

export const STATES = ["online", "busy", "offline", "quarantined", "revoked"] as const;
/** Not states of a device, but asked for beside them. */
export const MARKS = ["throttled", "resting"] as const;
export const SORTS = ["newest", "name", "state", "target", "pool", "temperature", "memory", "agent", "seen"] as const;
export type Sort = (typeof SORTS)[number];

export interface Asked {
  readonly text: string;
  /** One of `STATES` or `MARKS`; empty for all but the revoked. */
  readonly state: string;
  readonly target: string;
  readonly pool: string;
  readonly agent: string;
  readonly sort: Sort;
  readonly reverse: boolean;
}

const known = (values: readonly string[], value: string | null) => (value && values.includes(value) ? value : "");

export function askedOf(query: URLSearchParams): Asked {
  return {
    text: (query.get("q") ?? "").trim(),
    state: known([...STATES, ...MARKS], query.get("state")),
    target: query.get("target") ?? "",
    pool: query.get("pool") ?? "",
    agent: /^\d{1,6}(\.\d{1,6}){0,2}$/.test(query.get("agent") ?? "") ? (query.get("agent") ?? "") : "",
    sort: (known(SORTS, query.get("sort")) || "name") as Sort,
    reverse: query.get("reverse") === "1",
  };
}

/** A value of a selector that means itself. */
export function exactly(value: string): string {
  return `"${value.replace(/[\\"]/g, "\\$&")}"`;
}

/** Which devices; not those that were revoked, unless these are what is asked for. */
export function filterQuery(asked: Asked): URLSearchParams {
  const terms = [
    (STATES as readonly string[]).includes(asked.state) ? `state=${asked.state}` : "state!=revoked",
    asked.target && `target=${exactly(asked.target)}`,
    asked.pool && `pool=${exactly(asked.pool)}`,
    asked.agent && `agent=${asked.agent}`,
  ];
  const query = new URLSearchParams({ on: terms.filter(Boolean).join(",") });
  if (asked.text) query.set("text", asked.text);
  if ((MARKS as readonly string[]).includes(asked.state)) query.set(asked.state, "true");
  return query;
}

/** Counts in each state of what is asked for otherwise. */
export function totalsPath(asked: Asked): string {
  return `/device-totals?${filterQuery({ ...asked, state: "" }).toString()}`;
}

export function listPath(asked: Asked): string {
  const query = filterQuery(asked);
  query.set("sort", asked.sort);
  if (asked.reverse) query.set("reverse", "true");
  query.set("facts", "false");
  return `/devices?${query.toString()}`;
}

/** "0.2.1rc3" -> "0.2.1", by which the service compares agents; null for a version that it cannot. */
export function comparable(version: string): string | null {
  return /^\d{1,6}(\.\d{1,6}){0,2}(?!\d)/.exec(version)?.[0] ?? null;
}
