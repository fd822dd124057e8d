import { expect, test } from "vitest";
import type { CampaignCell, CampaignResult } from "../../api/types";
import { chosenRows, comparable, figureOf, merged, openPages, PAGE, rowsAtOnce, rowsOf, spreadText } from "./grid";

function cell(number: number, changes: Partial<CampaignCell> = {}): CampaignCell {
  return {
    number,
    build_id: "build",
    device_id: "device",
    device_name: "board",
    target: "host",
    seed: number,
    canary: false,
    state: "pending",
    run_id: null,
    failure: null,
    finished_at: null,
    ...changes,
  };
}

test("cells that are read again and are as before stay the same objects", () => {
  const known = [cell(0), cell(1)];
  expect(merged(known, [cell(0), cell(1)])).toBe(known);
  const next = merged(known, [cell(1, { state: "running", run_id: "run" }), cell(2)]);
  expect(next[0]).toBe(known[0]);
  expect(next.map(({ state }) => state)).toEqual(["pending", "running", "pending"]);
  const retried = merged(next, [cell(1, { state: "running", run_id: "next" })]);
  expect(retried[1]?.run_id).toBe("next");
});

test("only pages with a cell that is not over are read again", () => {
  const ended = Array.from({ length: 2 * PAGE }, (_, number) => cell(number, { state: "succeeded" }));
  expect(openPages(ended)).toEqual([]);
  expect(openPages([...ended, cell(2 * PAGE), cell(2 * PAGE + 1, { state: "running" })])).toEqual([2]);
});

test("a row for each device by name, seeds in order, and what has not changed is not made again", () => {
  const cells = [
    cell(0, { device_id: "b", device_name: "board-10", seed: 2 }),
    cell(1, { device_id: "a", device_name: "board-9", canary: true }),
    cell(2, { device_id: "b", device_name: "board-10", seed: 1 }),
    cell(3, { device_id: "b", device_name: "board-10", build_id: "other" }),
  ];
  const rows = rowsOf(cells);
  expect(rows.map(({ name, canary }) => [name, canary])).toEqual([
    ["board-9", true],
    ["board-10", false],
  ]);
  expect(rows[1]?.cells.get("build")?.map(({ seed }) => seed)).toEqual([1, 2]);
  const next = rowsOf(merged(cells, [cell(1, { ...cells[1], state: "failed" })]), rows);
  expect(next[1]).toBe(rows[1]);
  expect(next[0]).not.toBe(rows[0]);
});

test("rows are chosen by a part of the name and by how their cells stand", () => {
  const rows = rowsOf([
    cell(0, { device_id: "a", device_name: "Attic", state: "failed" }),
    cell(1, { device_id: "b", device_name: "Basement" }),
  ]);
  const names = (text: string, shown: "" | "failed" | "open") => chosenRows(rows, text, shown).map(({ name }) => name);
  expect(names("", "")).toEqual(["Attic", "Basement"]);
  expect(names("att", "")).toEqual(["Attic"]);
  expect(names("", "failed")).toEqual(["Attic"]);
  expect(names(" ", "open")).toEqual(["Basement"]);
});

test("of a large campaign fewer rows are drawn at once, and never few", () => {
  expect(rowsAtOnce(2, 3)).toBe(100);
  expect(rowsAtOnce(10, 1000)).toBe(4);
  expect(rowsAtOnce(2, 1000)).toBe(10);
  expect(rowsAtOnce(0, 0)).toBe(600);
});

test("runs that succeeded are compared, as many as can be", () => {
  const cells = Array.from({ length: 30 }, (_, number) =>
    cell(number, { state: "succeeded", run_id: `run ${number}` }),
  );
  expect(comparable([cell(0, { state: "failed", run_id: "failed" }), ...cells])).toHaveLength(24);
  expect(comparable(cells)[0]).toBe("run 0");
});

test("spreads in points, in percent, or none", () => {
  const spread = { n: 3, median: 0.93, low: 0.92, high: 0.96 };
  expect(spreadText("accuracy", spread)).toBe("93.0\u00a0% ±3.0");
  expect(spreadText("accuracy", { ...spread, n: 1 })).toBe("93.0\u00a0%");
  expect(spreadText("step_ms", { n: 3, median: 10, low: 8, high: 11 })).toBe("10.0\u00a0ms ±20.0\u00a0%");
  expect(spreadText("loss", { n: 2, median: 0, low: 0, high: 1 })).toBe("0");
  expect(spreadText("loss", null)).toBe("–");
});

test("the figure of the address, or the first that was measured", () => {
  const none = { accuracy: null, loss: null, step_ms: null, peak_bytes: null, joules_per_step: null };
  const slow = { ...none, step_ms: { n: 1, median: 1, low: 1, high: 1 } } as unknown as CampaignResult;
  expect(figureOf([slow], null)).toBe("step_ms");
  expect(figureOf([slow], "loss")).toBe("loss");
  expect(figureOf([slow], "hurt")).toBe("step_ms");
  expect(figureOf([], null)).toBe("accuracy");
});
