/** Finds out who is signed in when the page is opened, and when a link with a key is followed on the open page. */

import { signal } from "@preact/signals";
import { restore } from "./api/account";
import type { Problem } from "./api/client";
import { asProblem } from "./data";

/** Why that could not be found out: the server does not answer, or failed. */
export const startProblem = signal<Problem | null>(null);

export function tryAgain(): void {
  startProblem.value = null;
  restore().catch((error: unknown) => {
    startProblem.value = asProblem(error);
  });
}

/** The key leaves the address before this returns. */
export function start(): void {
  addEventListener("hashchange", () => {
    if (location.hash.startsWith("#key=")) tryAgain();
  });
  tryAgain();
}
