import { expect, test } from "vitest";
import { policyRows } from "./policy";

const FREE = { charging: false, metered: "allow", unknown: "allow" } as const;

test("only rules that are set are told", () => {
  expect(policyRows(FREE)).toEqual([]);
  expect(policyRows({ ...FREE, max_minutes_per_day: 0, hours: ["22:00-06:30", "12:00-13:00"] })).toEqual([
    ["Hours of the device", "22:00-06:30, 12:00-13:00"],
    ["Minutes a day", "at most 0"],
    ["What it cannot tell", "allows work"],
  ]);
  expect(
    policyRows({ ...FREE, charging: true, max_temperature_celsius: 60, metered: "never", unknown: "forbid" }),
  ).toEqual([
    ["Power", "only while plugged in"],
    ["Temperature", "only below 60 °C"],
    ["Metered networks", "never"],
    ["What it cannot tell", "forbids work"],
  ]);
});
