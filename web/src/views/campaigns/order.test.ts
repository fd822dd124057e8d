import { expect, test } from "vitest";
import type { Build } from "../../api/types";
import { AT_FIRST, orderOf, seedsOf, seedsText, selectorOf, sizeOf, totalsPath } from "./order";

const build = (target: string) => ({ target }) as Build;

test("seeds are numbers and ranges, each once, and not too many", () => {
  expect(seedsOf("0, 1,2 7-9").seeds).toEqual([0, 1, 2, 7, 8, 9]);
  expect(seedsOf("0-999").seeds).toHaveLength(1000);
  for (const wrong of ["", "x", "-1", "1.5", "9-7", "1, 1", "0-1000", "0-99999999999999", "1-2-3"]) {
    expect(seedsOf(wrong).problem, wrong).not.toBeNull();
    expect(seedsOf(wrong).seeds).toEqual([]);
  }
});

test("seeds are told as they are typed", () => {
  expect(seedsText([7, 1, 2, 5, 6])).toBe("1, 2, 5-7");
  expect(seedsText(seedsOf("0-24").seeds)).toBe("0-24");
  expect(seedsText([4])).toBe("4");
});

test("a pool means itself, whatever is in its name", () => {
  expect(selectorOf(AT_FIRST)).toBe("*");
  expect(selectorOf({ ...AT_FIRST, pool: 'a*,"b' })).toBe('pool="a*,\\"b"');
  expect(selectorOf({ ...AT_FIRST, where: "selector", selector: " pi-* " })).toBe("pi-*");
  expect(selectorOf({ ...AT_FIRST, where: "ticked", pool: "desk" })).toBe("*");
});

test("devices that can take part are counted by the service, unless they were ticked", () => {
  expect(totalsPath(AT_FIRST)).toBe("/device-totals?on=*%2Cstate%21%3Drevoked%2Cstate%21%3Dquarantined");
  expect(totalsPath({ ...AT_FIRST, where: "ticked" })).toBeNull();
  expect(totalsPath({ ...AT_FIRST, where: "selector", selector: "" })).toBeNull();
});

test("how many runs it will be: each build on the devices of its target", () => {
  const targets = new Map([
    ["host", 3],
    ["pi", 1],
  ]);
  const size = sizeOf([build("host"), build("host"), build("pi")], targets, 2);
  expect(size).toEqual({ runs: 14, text: "14 runs: 3 builds on 4 devices with 2 seeds", problem: null });
  const partly = sizeOf([build("host"), build("mcu")], targets, 1);
  expect(partly.text).toBe("3 runs: 2 builds on 3 devices with 1 seed; no device is of mcu");
  expect(partly.problem).toBeNull();
  expect(sizeOf([build("mcu")], targets, 1).problem).toBe("No chosen device is of mcu.");
  expect(sizeOf([], targets, 1).problem).toBe("Choose a build.");
  expect(sizeOf([build("host")], new Map([["host", 5000]]), 2).problem).toContain("5,000 runs at most");
});

test("what is wished for is asked for, and what is not is left out", () => {
  const wishes = { ...AT_FIRST, name: " sweep ", train: "data", devices: ["device"] };
  expect(orderOf(["build"], wishes, [1])).toEqual({
    name: "sweep",
    build_ids: ["build"],
    on: "*",
    dataset_id: "data",
    steps: 100,
    seeds: [1],
    canary: { devices: 1 },
    stop: { failed_share: 0.2 },
    retries: { transient: 3, crashed: 1 },
  });
  const plain = orderOf(["build"], { ...wishes, where: "ticked", evaluation: "eval", canary: 0, stop: 0 }, [1]);
  expect(plain).toMatchObject({ device_ids: ["device"], eval_dataset_id: "eval" });
  expect(plain).not.toHaveProperty("canary");
  expect(plain).not.toHaveProperty("stop");
});
