import { describe, expect, it } from "vitest";
import type { Run } from "../../api/types";
import { chosenRuns, COLUMNS, type Column, difference, front, grid, MOST_RUNS, rowOf, scale, toggled } from "./rows";

const id = (number: number) => `00000000-0000-7000-8000-${String(number).padStart(12, "0")}`;

function run(number: number, device: string, scheme: string, accuracy: number | null = null): Run {
  const version = { id: id(0), name: scheme, version: 1 };
  return {
    id: id(number),
    created_at: `2026-01-01T00:00:0${number}Z`,
    device_name: device,
    model: { ...version, name: "net" },
    recipe: version,
    build: version,
    entry: "train",
    report: accuracy === null ? null : { eval_after: { accuracy }, train: { peak_rss_bytes: accuracy * 1000 } },
  } as unknown as Run;
}

describe("chosenRuns", () => {
  it("takes each run once and nothing else", () => {
    expect(chosenRuns(`${id(1)},../keys,${id(2)},${id(1)},`)).toEqual([id(1), id(2)]);
    expect(chosenRuns(null)).toEqual([]);
  });

  it("is bounded", () => {
    const many = Array.from({ length: 40 }, (_, number) => id(number));
    expect(chosenRuns(many.join(","))).toHaveLength(MOST_RUNS);
    expect(toggled(many.slice(0, MOST_RUNS), id(39))).toEqual(many.slice(0, MOST_RUNS));
    expect(toggled([id(1), id(2)], id(1))).toEqual([id(2)]);
  });
});

describe("front", () => {
  it("leaves out what costs more and is no better", () => {
    const points = [
      { id: "dear", x: 9, y: 0.9 },
      { id: "beaten", x: 5, y: 0.5 },
      { id: "cheap", x: 1, y: 0.6 },
      { id: "same cost, worse", x: 1, y: 0.4 },
      { id: "no better", x: 10, y: 0.9 },
    ];
    expect(front(points).map((point) => point.id)).toEqual(["cheap", "dear"]);
  });

  it("keeps two that are equal", () => {
    const equal = ["a", "b"].map((name) => ({ id: name, x: 1, y: 1 }));
    expect(front(equal)).toHaveLength(2);
  });
});

describe("difference", () => {
  const column = (key: Column["key"]) => COLUMNS.find((one) => one.key === key) as Column;
  const [base, other, unknown] = [run(1, "a", "s", 0.5), run(2, "a", "s", 0.75), run(3, "a", "s")].map(rowOf);

  it("is in points of accuracy and relative for the rest", () => {
    if (!base || !other || !unknown) throw new Error("three rows");
    expect(difference(column("accuracy"), other, base)).toBe("+25.0\u00a0points");
    expect(difference(column("peak"), other, base)).toBe("+50.0\u00a0%");
    expect(difference(column("peak"), unknown, base)).toBe("");
    expect(difference(column("peak"), base, base)).toBe("");
  });
});

describe("grid", () => {
  it("needs several devices and several schemes", () => {
    expect(grid([run(1, "a", "s"), run(2, "b", "s")].map(rowOf))).toBeNull();
  });

  it("puts the newest run of a cell first", () => {
    const found = grid([run(1, "a", "s"), run(2, "a", "s"), run(3, "b", "t")].map(rowOf));
    expect(found?.cell("a", "s").map((row) => row.id)).toEqual([id(2), id(1)]);
    expect(found?.cell("a", "t")).toEqual([]);
  });
});

describe("scale", () => {
  it("keeps values inside and takes a single one to the middle", () => {
    const of = scale([10, 20], 0, 100);
    expect([of(10), of(20)].every((at) => at > 0 && at < 100)).toBe(true);
    expect(scale([5], 0, 100)(5)).toBeCloseTo(50);
  });
});
