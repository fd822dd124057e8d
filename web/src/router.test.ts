import { describe, expect, it } from "vitest";
import { link, parseRoute } from "./router";

describe("parseRoute", () => {
  it.each([
    ["", { view: "start" }],
    ["#/", { view: "start" }],
    ["#/fleet", { view: "fleet" }],
    ["#/builds", { view: "builds" }],
    ["#/devices/a%2Fb", { view: "device", id: "a/b" }],
    ["#/artifacts/abc", { view: "artifact", id: "abc" }],
    ["#/nowhere", { view: "missing" }],
    ["#/runs/1/steps", { view: "missing" }],
  ])("%s", (fragment, route) => expect(parseRoute(fragment)).toEqual(route));

  it("reads back every link it writes", () => {
    expect(parseRoute(link.run("x/y z"))).toEqual({ view: "run", id: "x/y z" });
    expect(parseRoute(link.build("1"))).toEqual({ view: "build", id: "1" });
  });
});
