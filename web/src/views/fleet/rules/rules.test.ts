import { expect, test } from "vitest";
import { changePath, ofDevice, ofPool, policyRows } from "./rules";

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

test("a change says which rules it is to replace, of a pool of any name", () => {
  const seen = { policy: null, version: "none" };
  expect(changePath(ofDevice("id", "board"), seen)).toBe("/devices/id/policy?expected=none");
  expect(changePath(ofPool("a&b/c"), seen)).toBe("/pools/policy?pool=a%26b%2Fc&expected=none");
});
