/** What a transfer does to the world: requests to the service, the worker, the browser's memory of unfinished uploads. */

import { Problem, send } from "../api/client";
import { sleep } from "../api/patience";
import type { Started, World } from "./transfer";
import { digestOf, Unreadable } from "./work";

const MEMORY = "pock.uploads";
const MOST_REMEMBERED = 50;
/** After this long without an answer, a part is given up and sent again. */
const PART_TIMEOUT_MS = 120_000;

function memory(): Record<string, string> {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(MEMORY) ?? "{}");
    return typeof found === "object" && found !== null ? (found as Record<string, string>) : {};
  } catch {
    return {};
  }
}

async function json<T>(path: string, body: unknown): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  const response = await send(path, { method: "POST", headers, body: JSON.stringify(body) });
  return (await response.json()) as T;
}

function offsetIn(response: Response): number {
  const told = Number(response.headers.get("Upload-Offset"));
  if (!Number.isSafeInteger(told)) throw new Problem("No offset", "The server tells no offset.", 502, null, true);
  return told;
}

export const world: World = {
  digest: digestOf,
  start: (digest, size) => json<Started>("/uploads", { digest, size }),
  offset: async (id) => offsetIn(await send(`/uploads/${encodeURIComponent(id)}`, { method: "HEAD" })),
  append: async (id, offset, part, signal) => {
    // A file that was changed or deleted would look like a lost connection, and be tried again for ever.
    const bytes = await part.arrayBuffer().catch(() => {
      throw new Unreadable("The file");
    });
    const response = await send(`/uploads/${encodeURIComponent(id)}`, {
      method: "PATCH",
      headers: { "Upload-Offset": String(offset), "Content-Type": "application/octet-stream" },
      body: bytes,
      signal: AbortSignal.any([signal, AbortSignal.timeout(PART_TIMEOUT_MS)]),
    });
    return offsetIn(response);
  },
  remembered: (digest) => memory()[digest] ?? null,
  remember: (digest, id) => {
    const others = Object.entries(memory()).filter(([known]) => known !== digest);
    const kept = id === null ? others : [...others, [digest, id]];
    try {
      localStorage.setItem(MEMORY, JSON.stringify(Object.fromEntries(kept.slice(-MOST_REMEMBERED))));
    } catch {
      // A browser that keeps nothing sends a file anew after a reload; the upload itself needs no memory.
    }
  },
  sleep,
  now: () => performance.now(),
};
