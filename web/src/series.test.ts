import { describe, expect, it } from "vitest";
import { histogram, mergeSteps, quantile, smoothed } from "./series";

const step = (number: number, loss = number) => ({ step: number, loss, ms: 1 });

describe("series", () => {
  it("appends in order and drops repeats", () => {
    expect(mergeSteps([step(1), step(2)], [step(3)]).map((s) => s.step)).toEqual([1, 2, 3]);
    expect(mergeSteps([step(1), step(2)], [step(2, 9), step(3)])).toEqual([step(1), step(2, 9), step(3)]);
    expect(mergeSteps([step(4)], [step(2), step(1)]).map((s) => s.step)).toEqual([1, 2, 4]);
    expect(mergeSteps([], [step(1), step(1, 7)])).toEqual([step(1, 7)]);
    expect(mergeSteps([step(1)], [])).toEqual([step(1)]);
  });

  it("smooths without lag at the beginning, and past what is missing", () => {
    expect(smoothed([5, 5, 5], 0.9)).toEqual([5, 5, 5].map((value) => expect.closeTo(value) as number));
    expect(smoothed([1, 3], 0)).toEqual([1, 3]);
    expect(smoothed([null, 2, Number.NaN, 4], 0.5)).toEqual([null, 2, 2, expect.closeTo((0.25 * 2 + 0.5 * 4) / 0.75)]);
  });

  it("smooths 30,000 steps in less time than a frame", () => {
    const values = Array.from({ length: 30_000 }, (_, index) => Math.sin(index));
    const began = performance.now();
    smoothed(values, 0.99);
    expect(performance.now() - began).toBeLessThan(20);
  });

  it("counts in parts, what is above the last in the last", () => {
    expect(histogram([0, 1, 2, 3, 100], 2, 4)).toEqual([
      { from: 0, to: 2, count: 2 },
      { from: 2, to: 4, count: 3 },
    ]);
    expect(histogram([], 4, 1)).toEqual([]);
    expect(histogram([7, 7], 3, 7).reduce((sum, { count }) => sum + count, 0)).toBe(2);
  });

  it("interpolates quantiles", () => {
    expect(quantile([4, 1, 3, 2], 0.5)).toBe(2.5);
    expect(quantile([1, 2, 3, 4, 5], 0.9)).toBeCloseTo(4.6);
    expect(quantile([], 0.5)).toBeNull();
  });
});
