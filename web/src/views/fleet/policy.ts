/** The rules of a policy in words. */

import type { DevicePolicy } from "../../api/types";

type Policy = NonNullable<DevicePolicy["policy"]>;

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
