import { expect, test } from "vitest";
import type { Build } from "../../api/types";
import { allMissing, isOlder, matrixOf, missingOf, orderLike } from "./rows";

const build = (id: string, name: string, target: string, lr: number): Build =>
  ({ id, name, target, recipe: { lr }, model_id: "m", threads: 4, priority: 0, tune: "off" }) as unknown as Build;

const BUILDS = [
  build("4", "last", "pi", 0.2),
  build("3", "last", "host", 0.1),
  build("2", "bias", "host", 0.1),
  build("1", "last", "host", 0.1),
];

test("rows are schemes, columns targets, and cells have the newest build first", () => {
  const { targets, rows } = matrixOf(BUILDS);
  expect(targets).toEqual(["host", "pi"]);
  expect(rows.map(({ scheme }) => scheme)).toEqual(["last", "bias"]);
  expect(rows[0]?.cells.get("host")?.map(({ id }) => id)).toEqual(["3", "1"]);
});

test("a cell without a build, or with an older recipe, is missing", () => {
  const { targets, rows } = matrixOf(BUILDS);
  const [last, bias] = rows;
  if (!last || !bias) throw new Error("two rows");
  expect(missingOf(last, targets)).toEqual(["host"]);
  expect(missingOf(bias, targets)).toEqual(["pi"]);
  expect(isOlder(BUILDS[1] as Build, last)).toBe(true);
});

test("a recipe that names the same in another order is not older", () => {
  const recipe = (value: object): Build => ({ ...(BUILDS[0] as Build), recipe: value as Build["recipe"] });
  const newest = recipe({ batch: 8, update: [{ params: "a", rate: 1 }, "b"] });
  const row = matrixOf([newest]).rows[0];
  if (!row) throw new Error("a row");
  expect(isOlder(recipe({ update: [{ rate: 1, params: "a" }, "b"], batch: 8 }), row)).toBe(false);
  expect(isOlder(recipe({ update: ["b", { rate: 1, params: "a" }], batch: 8 }), row)).toBe(true);
});

test("further targets are columns after those that were built, and all of them is missing", () => {
  const { targets, rows } = matrixOf(BUILDS, ["phone", "host"]);
  expect(targets).toEqual(["host", "pi", "phone"]);
  expect(allMissing(rows, targets).map(({ scheme, target }) => `${scheme} ${target}`)).toEqual([
    "last host",
    "last phone",
    "bias pi",
    "bias phone",
  ]);
});

test("threads are kept for the same target only", () => {
  const [first] = BUILDS;
  if (!first) throw new Error("a build");
  expect(orderLike(first, "pi")).toMatchObject({ target: "pi", threads: 4, name: "last" });
  expect(orderLike(first, "host")).not.toHaveProperty("threads");
});
