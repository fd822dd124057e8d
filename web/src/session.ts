/** Who is signed in. The API key is sent once, for a cookie that no script can read; the page keeps no secret. */

import { signal } from "@preact/signals";
import type { Me } from "./api/types";

/** The person or script of this browser's session: null when nobody is signed in, undefined until the server said so. */
export const me = signal<Me | null | undefined>(undefined);
/** Why the person has to sign in again, shown on the sign-in page. */
export const signInReason = signal<string | null>(null);

/** Splits `#key=pk_…&next=/runs/…`; null when the fragment carries no key. */
export function parseKeyFragment(fragment: string): { key: string; next: string } | null {
  if (!fragment.startsWith("#key=")) return null;
  const fields = new URLSearchParams(fragment.slice(1));
  const key = fields.get("key")?.trim() ?? "";
  const next = fields.get("next") ?? "/";
  return key === "" ? null : { key, next: next.startsWith("/") ? next : "/" };
}

/** Takes a key out of the address, at once and without leaving it in the history. */
export function takeKeyFromAddress(): string | null {
  const found = parseKeyFragment(location.hash);
  if (!found) return null;
  history.replaceState(null, "", `#${found.next}`);
  return found.key;
}

export function signedIn(who: Me): void {
  signInReason.value = null;
  me.value = who;
}

export function signedOut(reason: string | null): void {
  signInReason.value = reason;
  me.value = null;
}
