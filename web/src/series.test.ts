import { describe, expect, it } from "vitest";
import { mergeSteps, movingMean, quantile } from "./series";

const step = (number: number, loss = number) => ({ step: number, loss, ms: 1 });

describe("series", () => {
  it("appends in order and drops repeats", () => {
    expect(mergeSteps([step(1), step(2)], [step(3)]).map((s) => s.step)).toEqual([1, 2, 3]);
    expect(mergeSteps([step(1), step(2)], [step(2, 9), step(3)])).toEqual([step(1), step(2, 9), step(3)]);
    expect(mergeSteps([step(4)], [step(2), step(1)]).map((s) => s.step)).toEqual([1, 2, 4]);
    expect(mergeSteps([], [step(1), step(1, 7)])).toEqual([step(1, 7)]);
    expect(mergeSteps([step(1)], [])).toEqual([step(1)]);
  });

  it("smooths over the latest values", () => {
    expect(movingMean([1, 3, 5, null], 2)).toEqual([1, 2, 4, 5]);
    expect(movingMean([null, Number.NaN], 3)).toEqual([null, null]);
  });

  it("interpolates quantiles", () => {
    expect(quantile([4, 1, 3, 2], 0.5)).toBe(2.5);
    expect(quantile([1, 2, 3, 4, 5], 0.9)).toBeCloseTo(4.6);
    expect(quantile([], 0.5)).toBeNull();
  });
});
