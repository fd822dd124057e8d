/** The API key: entered once, kept in this tab's sessionStorage, never in the address. */

import { signal } from "@preact/signals";

const STORED = "pock.key";

/** The key in use, or null when nobody is signed in. */
export const apiKey = signal<string | null>(null);
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
function takeKeyFromAddress(): boolean {
  const found = parseKeyFragment(location.hash);
  if (!found) return false;
  history.replaceState(null, "", `#${found.next}`);
  signIn(found.key);
  return true;
}

/** Restores this tab's key or takes the one in the address; also when such a link is followed on the open page. */
export function startSession(): void {
  if (!takeKeyFromAddress()) apiKey.value = sessionStorage.getItem(STORED);
  addEventListener("hashchange", takeKeyFromAddress);
}

export function signIn(key: string): void {
  sessionStorage.setItem(STORED, key);
  signInReason.value = null;
  apiKey.value = key;
}

export function signOut(reason: string | null): void {
  sessionStorage.removeItem(STORED);
  signInReason.value = reason;
  apiKey.value = null;
}
