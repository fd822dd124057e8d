/** What the form of a policy holds, and the order that comes of it. Pure functions. */

import type { Policy } from "./rules";

/** Times of day, "22:00"; until midnight is "00:00". */
export interface Span {
  readonly from: string;
  readonly until: string;
}

/** Texts as they are in the fields; an empty one sets no limit. */
export interface Wishes {
  readonly charging: boolean;
  readonly degrees: string;
  readonly hours: readonly Span[];
  readonly minutes: string;
  readonly joules: string;
  readonly unmetered: boolean;
  readonly unknownForbids: boolean;
}

export const MOST_HOURS = 24;
export const USUAL_HOURS: Span = { from: "22:00", until: "06:00" };

const text = (value: number | null | undefined) => (value === null || value === undefined ? "" : String(value));

export function wishesOf(policy: Policy | null): Wishes {
  return {
    charging: policy?.charging ?? false,
    degrees: text(policy?.max_temperature_celsius),
    hours: (policy?.hours ?? []).map(spanOf),
    minutes: text(policy?.max_minutes_per_day),
    joules: text(policy?.max_joules_per_day),
    unmetered: policy?.metered === "never",
    unknownForbids: policy?.unknown === "forbid",
  };
}

function spanOf(told: string): Span {
  const [from = "", until = ""] = told.split("-");
  return { from, until: until === "24:00" ? "00:00" : until };
}

/** The rules that are set, as the service is told. */
export function orderOf(wishes: Wishes): Partial<Policy> {
  return {
    ...(wishes.charging ? { charging: true } : {}),
    ...(wishes.degrees === "" ? {} : { max_temperature_celsius: Number(wishes.degrees) }),
    ...(wishes.hours.length === 0 ? {} : { hours: wishes.hours.map(hoursText) }),
    ...(wishes.minutes === "" ? {} : { max_minutes_per_day: Number(wishes.minutes) }),
    ...(wishes.joules === "" ? {} : { max_joules_per_day: Number(wishes.joules) }),
    ...(wishes.unmetered ? { metered: "never" as const } : {}),
    ...(wishes.unknownForbids ? { unknown: "forbid" as const } : {}),
  };
}

/** From midnight to midnight is the whole day. */
function hoursText({ from, until }: Span): string {
  return `${from}-${until === "00:00" ? "24:00" : until}`;
}
