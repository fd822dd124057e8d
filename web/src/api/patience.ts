/** What the service puts off is asked again when it says so, instead of being taken for refused: somebody who asks for
 *  forty builds at once is over the rate of a key. Knows no page. */

import { Problem } from "./problem";

/** Where the service does not say when. */
const UNTOLD_S = 1;
const LONGEST_S = 60;

/** Called with the seconds that it waits, and with null when it asks again. */
export type Waits = (seconds: number | null) => void;

/** Seconds after which a request may be sent again; null where waiting does not help. */
export function putOff(error: unknown): number | null {
  if (!(error instanceof Problem)) return null;
  if (error.status !== 429 && (error.status !== 503 || error.retryAfter === null)) return null;
  return Math.min(LONGEST_S, Math.max(UNTOLD_S, error.retryAfter ?? UNTOLD_S));
}

/** Seconds after which what was refused for its rate may be asked for again; null for every other problem, which a person
 *  who looks at something is told at once. */
export function tooOften(error: unknown): number | null {
  return error instanceof Problem && error.status === 429 ? putOff(error) : null;
}

/** Acts, again and again while the service puts it off. Whoever stops meanwhile gets what the service said last. */
export async function patiently<T>(act: () => Promise<T>, waits: Waits, signal?: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await act();
    } catch (error) {
      const seconds = putOff(error);
      if (seconds === null || signal?.aborted) throw error;
      waits(seconds);
      await sleep(1000 * seconds, signal);
      waits(null);
      if (signal?.aborted) throw error;
    }
  }
}

/** For a person who waits. */
export function waitsText(seconds: number): string {
  return `The service takes no more requests for now; it goes on in ${seconds} s.`;
}

/** Ends early, without an error, when `signal` is aborted. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
