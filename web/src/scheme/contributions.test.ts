import { expect, test } from "vitest";
import { broughtBy, gainsOf } from "./contributions";
import type { Row } from "./scheme";

const row = (name: string, ...parameters: string[]): Row => ({
  name,
  parameters: parameters.map((one) => ({ name: one, shape: [4, 4], channels: null })),
});

test("of each parameter counts the best of its options; what is no result of a search says nothing", () => {
  const units = [
    { name: "a.weight", gains: [0, 2, 3, 1] },
    { name: "a.bias", gains: [0, "much", null, 1] },
    { name: 7, gains: [1] },
    null,
  ];
  expect([...gainsOf({ units })]).toEqual([
    ["a.weight", 3],
    ["a.bias", 1],
  ]);
  for (const other of [null, [], {}, { units: 3 }, "units"]) expect(gainsOf(other).size).toBe(0);
});

test("a layer brings what its parameters do, and the best one is the darkest", () => {
  const gains = new Map([
    ["a.weight", 5],
    ["a.bias", 1],
    ["b.weight", 3],
    ["c.weight", 0],
  ]);
  const found = broughtBy(
    [row("a", "a.weight", "a.bias"), row("b", "b.weight"), row("c", "c.weight"), row("d")],
    gains,
  );
  expect([...found.keys()]).toEqual(["a", "b", "c"]);
  expect(found.get("a")).toEqual({ share: 6 / 9, shade: 4 });
  expect(found.get("b")).toEqual({ share: 3 / 9, shade: 3 });
  expect(found.get("c")).toEqual({ share: 0, shade: 0 });
  expect(broughtBy([row("c", "c.weight")], gains).size).toBe(0);
});
