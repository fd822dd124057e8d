/** Finds out who is signed in when the page is opened, and when a link with a key is followed on the open page. */

import { effect, signal } from "@preact/signals";
import { restore } from "./api/account";
import type { Problem } from "./api/client";
import { asProblem, queries } from "./data";
import { me } from "./session";

/** Why that could not be found out: the server does not answer, or failed. */
export const startProblem = signal<Problem | null>(null);

export function tryAgain(): void {
  startProblem.value = null;
  restore().catch((error: unknown) => {
    startProblem.value = asProblem(error);
  });
}

/** The session that this tab shows: undefined until the server said which. */
let shown: string | null | undefined;

/** The cookie is the browser's: who signs in or out in one tab does so in all. */
function shareWithOtherTabs(): void {
  const others = new BroadcastChannel("pock-session");
  others.onmessage = ({ data }: MessageEvent<string | null>) => {
    if (data !== shown) tryAgain();
  };
  effect(() => {
    const session = me.value === undefined ? undefined : (me.value?.session_id ?? null);
    if (session === shown) return;
    const known = shown;
    shown = session;
    if (known === undefined && session === null) return;
    queries.clear();
    others.postMessage(session);
  });
}

/** The key leaves the address before this returns. */
export function start(): void {
  addEventListener("hashchange", () => {
    if (location.hash.startsWith("#key=")) tryAgain();
  });
  tryAgain();
  shareWithOtherTabs();
}
