import { expect, test, vi } from "vitest";
import { Problem } from "../../../api/client";
import { applyToEach, type Outcome } from "./work";

const devices = Array.from({ length: 9 }, (_, number) => ({ id: String(number), name: `pi-${number}` }));
const ignored = () => undefined;
const open = new AbortController().signal;

test("each device is done once, and a refusal stays with its device", async () => {
  const told: Outcome[] = [];
  const refusal = new Error("no");
  const act = vi.fn(({ id }: { id: string }) => (id === "3" ? Promise.reject(refusal) : Promise.resolve()));
  await applyToEach(devices, act, open, (outcome) => told.push(outcome), ignored);
  expect(act).toHaveBeenCalledTimes(9);
  expect(told.map(({ device }) => device.id).sort()).toEqual(devices.map(({ id }) => id));
  expect(told.filter(({ error }) => error !== null)).toEqual([{ device: devices[3], error: refusal }]);
});

test("at most four are under way, and none is begun after a stop", async () => {
  const stop = new AbortController();
  let underWay = 0;
  let begun = 0;
  const act = async () => {
    begun += 1;
    expect(++underWay).toBeLessThanOrEqual(4);
    await Promise.resolve();
    underWay -= 1;
    if (begun >= 5) stop.abort();
  };
  await applyToEach([...devices, ...devices, ...devices], act, stop.signal, ignored, ignored);
  expect(begun).toBeGreaterThanOrEqual(5);
  expect(begun).toBeLessThan(3 * 9);
});

test("what the service puts off is asked again", async () => {
  vi.useFakeTimers();
  const told: Outcome[] = [];
  const act = vi
    .fn<() => Promise<void>>()
    .mockRejectedValueOnce(new Problem("Too many", "Later.", 429, null, true))
    .mockResolvedValue();
  const done = applyToEach(devices.slice(0, 1), act, open, (outcome) => told.push(outcome), ignored);
  await vi.runAllTimersAsync();
  await done;
  vi.useRealTimers();
  expect(act).toHaveBeenCalledTimes(2);
  expect(told).toEqual([{ device: devices[0], error: null }]);
});
