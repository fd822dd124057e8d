import { expect, test } from "vitest";
import type { Policy } from "./rules";
import { orderOf, wishesOf } from "./wishes";

const FREE = { charging: false, metered: "allow", unknown: "allow" } as const;

test("what is not set is not ordered", () => {
  expect(orderOf(wishesOf(null))).toEqual({});
  expect(orderOf(wishesOf(FREE))).toEqual({});
});

test("what is set comes back as it was, limits of nothing as well", () => {
  const policy: Policy = {
    charging: true,
    max_temperature_celsius: 0,
    hours: ["22:00-06:30", "12:00-13:00"],
    max_minutes_per_day: 0,
    max_joules_per_day: 1.5,
    metered: "never",
    unknown: "forbid",
  };
  expect(orderOf(wishesOf(policy))).toEqual(policy);
});

test("the end of the day is midnight, and a whole day can be told", () => {
  const wishes = wishesOf({ ...FREE, hours: ["18:00-24:00"] });
  expect(wishes.hours).toEqual([{ from: "18:00", until: "00:00" }]);
  expect(orderOf(wishes)).toEqual({ hours: ["18:00-24:00"] });
  expect(orderOf({ ...wishes, hours: [{ from: "00:00", until: "00:00" }] })).toEqual({ hours: ["00:00-24:00"] });
});
