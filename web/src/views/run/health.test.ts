import { expect, test } from "vitest";
import { alongSteps, feltDuring, throttledFrom } from "./health";

const sample = (step: unknown, celsius: unknown, throttled: unknown = false) => ({
  step,
  temperature_c: celsius,
  throttled,
});

test("what was read at no step of the training, or is no number, is left out", () => {
  const samples = [sample(null, 40), sample(5, 50), "no", null, sample(2, "hot", true), sample(1.5, 3), sample(-1, 3)];
  expect(feltDuring({ samples })).toEqual([
    { step: 2, celsius: null, throttled: true },
    { step: 5, celsius: 50, throttled: false },
  ]);
  expect(feltDuring({ samples: { length: 3 } })).toEqual([]);
  expect(feltDuring(null)).toEqual([]);
});

test("it throttled from the step on that was under way", () => {
  const felt = feltDuring({ samples: [sample(60, 80), sample(120, 84, true), sample(180, 84, true)] });
  expect(throttledFrom(felt)).toBe(121);
  expect(throttledFrom(felt.slice(0, 1))).toBeNull();
});

test("readings lie at the steps that were made by then", () => {
  const felt = feltDuring({
    samples: [sample(0, 40), sample(1, 41), sample(2, 60), sample(2, 59), sample(9, 84, true)],
  });
  expect(alongSteps(felt, [1, 2, 3, 4], false)).toEqual([41, 60, undefined, 84]);
  expect(alongSteps(felt, [1, 2, 3, 4], true)).toEqual([undefined, undefined, undefined, 84]);
});
