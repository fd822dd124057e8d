import { expect, test } from "vitest";
import type { DeviceTotals } from "../../../api/types";
import { AT_FIRST, orderOf, reachOf, stagesOf, stepsOf, totalsPath } from "./order";

const totals = (total: number, agents: Readonly<Record<string, number>> = {}) =>
  ({ total, agent_versions: Object.entries(agents).map(([name, count]) => ({ name, count })) }) as DeviceTotals;

test("stages are percentages that grow to all", () => {
  expect(stagesOf("10, 50 100")).toEqual({ stages: [10, 50, 100], problem: null });
  expect(stagesOf("5 %, 100 %").stages).toEqual([5, 100]);
  for (const wrong of ["", "50", "50, 50, 100", "0, 100", "100, 50", "10, 200", "a, 100", "1.5, 100", "-1, 100"])
    expect(stagesOf(wrong).problem, wrong).not.toBeNull();
});

test("steps are those of the service: percentages are rounded up, and the canary counts", () => {
  expect(stepsOf(10, 1, [10, 50, 100])).toEqual([1, 5, 10]);
  expect(stepsOf(3, 0, [10, 50, 100])).toEqual([1, 2, 3]);
  expect(stepsOf(3, 5, [10, 100])).toEqual([3]);
  expect(stepsOf(0, 1, [100])).toEqual([]);
});

test("who has the release already is not reached", () => {
  const reach = reachOf(totals(12, { "0.2.0": 2, "0.1.0": 10 }), "0.2.0", AT_FIRST, [10, 50, 100]);
  expect(reach).toEqual({
    devices: 10,
    text: "10 devices: first 1, then 5, then all 10. 2 devices of 12 have it already.",
    problem: null,
  });
  expect(reachOf(totals(1), "0.2.0", AT_FIRST, [100]).text).toBe("1 device.");
});

test("a rollout to nobody, or to too many, says why not", () => {
  const why = (some: DeviceTotals) => reachOf(some, "0.2.0", AT_FIRST, [100]).problem;
  expect(why(totals(0))).toBe("No device matches.");
  expect(why(totals(2, { "0.2.0": 2 }))).toBe("Every device that matches runs 0.2.0 already.");
  expect(why(totals(20_001))).toContain("20,000 devices at most");
  expect(why(totals(20_000))).toBeNull();
});

test("the order says everything; only devices that can be told are counted", () => {
  const wishes = { ...AT_FIRST, on: " pool=desk " };
  expect(orderOf("id", wishes, [100])).toEqual({
    release_id: "id",
    on: "pool=desk",
    canary: 1,
    stages: [100],
    healthy_seconds: 600,
    check_in_seconds: 300,
    max_failed: 0,
  });
  expect(totalsPath(wishes.on)).toBe("/device-totals?on=pool%3Ddesk%2Cstate%21%3Drevoked%2Cstate%21%3Dquarantined");
  expect(totalsPath(" ")).toBeNull();
});
