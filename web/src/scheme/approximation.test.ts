import { expect, test } from "vitest";
import type { About } from "../api/types";
import { nearer } from "./approximation";

const about: About = {
  predicted_peak_bytes: 1600,
  step_ms: 10,
  runtime_bytes: 100,
  param_bytes: 200,
  state_bytes: 200,
  const_bytes: 50,
  input_bytes: 50,
  arena_bytes: 1000,
  trained_parameters: 7,
};

test("what takes less than the one before is off by the same part", () => {
  const was = { about: { ...about, arena_bytes: 2000, step_ms: 20 }, planned: { arena_bytes: 2200, step_ms: 15 } };
  expect(nearer(about, was)).toEqual({ ...about, arena_bytes: 1100, predicted_peak_bytes: 1700, step_ms: 7.5 });
});

test("what takes more is off by the same amount", () => {
  const was = { about: { ...about, arena_bytes: 500, step_ms: 4 }, planned: { arena_bytes: 450, step_ms: 5 } };
  expect(nearer(about, was)).toEqual({ ...about, arena_bytes: 950, predicted_peak_bytes: 1550, step_ms: 11 });
});

test("without another it stays as it is, and where nothing was told nothing is off", () => {
  expect(nearer(about, null)).toBe(about);
  const was = { about: { ...about, arena_bytes: 0, step_ms: 0 }, planned: { arena_bytes: 10, step_ms: 10 } };
  expect(nearer(about, was)).toEqual(about);
});
