/** A recipe as addresses carry it. */

/** Base64 of the text's UTF-8, as addresses may have it. */
export function packed(text: string): string {
  const bytes = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
}

/** What was packed; null where it was not. */
export function unpacked(code: string | null): string | null {
  if (!code) return null;
  try {
    const binary = atob(code.replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(binary, (letter) => letter.charCodeAt(0)));
  } catch {
    return null;
  }
}
