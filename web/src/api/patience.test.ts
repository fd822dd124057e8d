import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { patiently, putOff, tooOften } from "./patience";
import { Problem, problemOf } from "./problem";

const tooMany = (after: string | null) =>
  problemOf(new Response("{}", { status: 429, headers: after === null ? {} : { "Retry-After": after } }));

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("it asks again after the time that the service tells, and says that it waits", async () => {
  const told: (number | null)[] = [];
  const act = vi
    .fn<() => Promise<string>>()
    .mockRejectedValueOnce(await tooMany("7"))
    .mockRejectedValueOnce(await tooMany(null))
    .mockResolvedValue("done");
  const done = patiently(act, (seconds) => told.push(seconds));
  await vi.advanceTimersByTimeAsync(6900);
  expect(act).toHaveBeenCalledTimes(1);
  expect(told).toEqual([7]);
  await vi.advanceTimersByTimeAsync(200);
  expect(act).toHaveBeenCalledTimes(2);
  await vi.runAllTimersAsync();
  expect(await done).toBe("done");
  expect(told).toEqual([7, null, 1, null]);
});

test("what waiting does not help is told at once", async () => {
  const refused = new Problem("Invalid", "No.", 422, 3, false);
  const act = vi.fn(() => Promise.reject(refused));
  await expect(patiently(act, () => expect.unreachable())).rejects.toBe(refused);
  expect(act).toHaveBeenCalledTimes(1);
});

test("a stop ends the wait, and nothing is asked after it", async () => {
  const stop = new AbortController();
  const problem = await tooMany("30");
  const act = vi.fn(() => Promise.reject(problem));
  const done = patiently(act, () => undefined, stop.signal);
  const ended = expect(done).rejects.toBe(problem);
  await vi.advanceTimersByTimeAsync(1000);
  stop.abort();
  await ended;
  expect(act).toHaveBeenCalledTimes(1);
});

test("only what says when is waited for, and never for long", async () => {
  const of = (status: number, header: string) =>
    problemOf(new Response("{}", { status, headers: { "Retry-After": header } }));
  expect(putOff(await of(503, "2"))).toBe(2);
  expect(putOff(await problemOf(new Response("{}", { status: 503 })))).toBeNull();
  expect(putOff(await of(429, "86400"))).toBe(60);
  expect(putOff(await of(429, "Fri, 27 Nov 2026 17:00:00 GMT"))).toBe(1);
  expect(putOff(await of(409, "2"))).toBeNull();
  expect(putOff(new Error("no"))).toBeNull();
});

test("what somebody looks at is asked for again only where it was asked for too often", async () => {
  expect(tooOften(await tooMany("4"))).toBe(4);
  expect(tooOften(await problemOf(new Response("{}", { status: 503, headers: { "Retry-After": "2" } })))).toBeNull();
  expect(tooOften(null)).toBeNull();
});
