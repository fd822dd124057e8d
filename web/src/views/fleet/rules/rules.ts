/** The rules of a policy in words, and whose they are. */

import { get, type Problem } from "../../../api/client";
import type { DevicePolicy, PoolPolicy } from "../../../api/types";
import { asProblem } from "../../../data";

export type Policy = NonNullable<DevicePolicy["policy"]>;

/** Name and text of each rule that is set. */
export function policyRows(policy: Policy): [string, string][] {
  const rows: [string, string | null][] = [
    ["Power", policy.charging ? "only while plugged in" : null],
    ["Temperature", told(policy.max_temperature_celsius, (limit) => `only below ${limit} °C`)],
    ["Hours of the device", policy.hours?.join(", ") ?? null],
    ["Minutes a day", told(policy.max_minutes_per_day, (limit) => `at most ${limit}`)],
    ["Energy a day", told(policy.max_joules_per_day, (limit) => `at most ${limit} J`)],
    ["Metered networks", policy.metered === "never" ? "never" : null],
  ];
  const set = rows.filter((row): row is [string, string] => row[1] !== null);
  if (set.length > 0) set.push(["What it cannot tell", policy.unknown === "forbid" ? "forbids work" : "allows work"]);
  return set;
}

function told(value: number | null | undefined, text: (value: number) => string): string | null {
  return value === null || value === undefined ? null : text(value);
}

/** The rules as somebody saw them; the version says which, so that nobody's are overwritten unseen. */
export interface Seen {
  readonly policy: Policy | null;
  readonly version: string;
}

/** Whose rules: of one device, or of all in a pool. */
export interface Subject {
  /** "pool kitchen". */
  readonly name: string;
  readonly path: string;
  /** What else has a say, in a sentence. */
  readonly note: string;
  readonly look: () => Promise<Seen>;
}

export function ofDevice(id: string, name: string): Subject {
  const path = `/devices/${encodeURIComponent(id)}/policy`;
  return {
    name: `device ${name}`,
    path,
    note: "It works when these, the rules of its pool and those of its owner all allow it.",
    look: () => get<DevicePolicy>(path),
  };
}

const NONE: Seen = { policy: null, version: "none" };

export function ofPool(pool: string): Subject {
  const path = `/pools/policy?pool=${encodeURIComponent(pool)}`;
  return {
    name: `pool ${pool}`,
    path,
    note: "They hold for each device that is in the pool or comes into it. It works when these, its own rules and those of its owner all allow it.",
    look: () =>
      get<PoolPolicy>(path).catch((error: unknown) => {
        if (asProblem(error).status === 404) return NONE;
        throw error;
      }),
  };
}

/** Where the rules are changed, provided that they are still those that were seen. */
export function changePath({ path }: Subject, { version }: Seen): string {
  return `${path}${path.includes("?") ? "&" : "?"}expected=${version}`;
}

const CHANGED_MEANWHILE = 1028;

/** Whether somebody else was faster. */
export function isOutdated({ failureCode }: Problem): boolean {
  return failureCode === CHANGED_MEANWHILE;
}
