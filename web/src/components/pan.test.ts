import { describe, expect, it } from "vitest";
import { moved, zoomed } from "./pan";

const whole = { from: 1, to: 101 };

describe("the part of a chart that is shown", () => {
  it("keeps the place under the pointer when it zooms", () => {
    const shown = zoomed(whole, whole, 0.5, 0.25);
    expect(shown).toEqual({ from: 13.5, to: 63.5 });
    expect(shown.from + 0.25 * 50).toBe(26);
  });
  it("is never more than there is, nor less than a few points", () => {
    expect(zoomed({ from: 10, to: 90 }, whole, 100, 0.5)).toEqual(whole);
    expect(zoomed({ from: 10, to: 12 }, whole, 0.01, 0)).toEqual({ from: 10, to: 14 });
    expect(zoomed({ from: 1, to: 2 }, { from: 1, to: 2 }, 0.5, 0.5)).toEqual({ from: 1, to: 2 });
  });
  it("moves to the ends and no farther", () => {
    expect(moved({ from: 10, to: 30 }, whole, 15)).toEqual({ from: 25, to: 45 });
    expect(moved({ from: 10, to: 30 }, whole, -15)).toEqual({ from: 1, to: 21 });
    expect(moved({ from: 10, to: 30 }, whole, 1000)).toEqual({ from: 81, to: 101 });
  });
});
