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

/** Takes a key out of the fragment, at once and without leaving it in the history; else restores the stored one. */
export function restoreSession(): void {
  const fromAddress = parseKeyFragment(location.hash);
  if (fromAddress) {
    history.replaceState(null, "", `#${fromAddress.next}`);
    signIn(fromAddress.key);
  } else {
    apiKey.value = sessionStorage.getItem(STORED);
  }
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
