import { describe, expect, it } from "vitest";
import { SECTIONS, VIEWS, viewOf } from "./table_of_views";

describe("viewOf", () => {
  it.each([
    [[], "", ""],
    [["fleet"], "fleet", ""],
    [["runs", "7"], "runs/:id", "7"],
  ])("%j", (path, pattern, id) => {
    const found = viewOf(path);
    expect([found?.view.pattern, found?.id]).toEqual([pattern, id]);
  });

  it("knows when nothing is meant", () => {
    expect(viewOf(["nowhere"])).toBeNull();
    expect(viewOf(["runs", "7", "steps"])).toBeNull();
  });

  it("has a section of the navigation for every view", () => {
    const names = SECTIONS.map(({ name }) => name);
    expect(VIEWS.filter(({ section }) => !names.includes(section))).toEqual([]);
  });
});
