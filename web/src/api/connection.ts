/** Whether the server answers, as the requests found out. */

import { signal } from "@preact/signals";

/** When the first request failed that got no answer, in milliseconds; null while the server answers. */
export const lostSince = signal<number | null>(null);

export function answered(): void {
  lostSince.value = null;
}

export function unanswered(): void {
  lostSince.value ??= Date.now();
}
