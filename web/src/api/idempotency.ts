/** A fresh idempotency key. `crypto.randomUUID` exists only on https and loopback; random bytes exist everywhere. */
export function freshKey(): string {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
