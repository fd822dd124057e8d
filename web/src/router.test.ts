import { describe, expect, it } from "vitest";
import { link, parseAddress, to } from "./router";

const read = (fragment: string) => {
  const found = parseAddress(fragment);
  return found && { path: found.path, query: Object.fromEntries(found.query) };
};

describe("parseAddress", () => {
  it.each([
    ["", [], {}],
    ["#/", [], {}],
    ["#/fleet", ["fleet"], {}],
    ["#/devices/a%2Fb", ["devices", "a/b"], {}],
    ["#/runs/1?tab=log&tail=20", ["runs", "1"], { tab: "log", tail: "20" }],
    ["#/fleet?q=a%3Fb", ["fleet"], { q: "a?b" }],
    ["#/fleet?q=?", ["fleet"], { q: "?" }],
  ])("%s", (fragment, path, query) => expect(read(fragment)).toEqual({ path, query }));

  it("has no meaning for a broken sequence", () => expect(parseAddress("#/runs/%E0%A4%A")).toBeNull());

  it("reads back every link that is written", () => {
    expect(read(link.run("x/y z"))).toEqual({ path: ["runs", "x/y z"], query: {} });
    expect(read(to(["fleet"], { q: "a b&c", state: null, sort: "" }))).toEqual({
      path: ["fleet"],
      query: { q: "a b&c" },
    });
  });
});
