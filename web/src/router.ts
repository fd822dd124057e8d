/** Addresses live in the fragment (`#/runs/ID?tab=log`), so the page works from any static folder and under any prefix.
 * Each entry of the browser's history keeps what the person saw there: how far they had scrolled, what was unfolded. */

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";

export interface Address {
  /** The parts of the path, decoded: `["runs", ID]`. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

/** "#/runs/ID?tab=log" -> its parts; null for one that nothing can mean, such as a broken `%` sequence. */
export function parseAddress(fragment: string): Address | null {
  const [path = "", query = ""] = fragment.replace(/^#?\/?/, "").split(/\?(.*)/s);
  try {
    const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
    return { path: parts, query: new URLSearchParams(query) };
  } catch {
    return null;
  }
}

/** The address of a view; what is null or empty is left out of the query. */
export function to(path: readonly string[], query: Readonly<Record<string, string | null | undefined>> = {}): string {
  const told = Object.entries(query).filter((pair): pair is [string, string] => Boolean(pair[1]));
  const text = told.length > 0 ? `?${new URLSearchParams(told).toString()}` : "";
  return `#/${path.map(encodeURIComponent).join("/")}${text}`;
}

export const link = {
  device: (id: string) => to(["devices", id]),
  model: (id: string) => to(["models", id]),
  scheme: (id: string, query: Readonly<Record<string, string | null>> = {}) => to(["models", id, "scheme"], query),
  graph: (id: string, query: Readonly<Record<string, string | null>> = {}) => to(["models", id, "graph"], query),
  dataset: (id: string) => to(["datasets", id]),
  build: (id: string) => to(["builds", id]),
  matrix: (model: string) => to(["builds"], { show: "matrix", model }),
  artifact: (digest: string) => to(["artifacts", digest]),
  run: (id: string) => to(["runs", id]),
  compare: (ids: readonly string[]) => to(["compare"], { runs: ids.join(",") }),
  campaign: (id: string) => to(["campaigns", id]),
};

/** Where the person is; null where the address leads nowhere. */
export const address = signal<Address | null>({ path: [], query: new URLSearchParams() });

/** Changes parts of the query in place: what a view shows is in its address, and going back leaves the view. */
export function setQuery(changes: Readonly<Record<string, string | null | undefined>>): void {
  const current = address.peek();
  if (!current) return;
  const query = Object.fromEntries(current.query);
  history.replaceState(history.state, "", to(current.path, { ...query, ...changes }));
  address.value = parseAddress(location.hash);
}

/** Goes to another view. */
export function go(href: string): void {
  location.hash = href;
}

/** What was kept of each entry of the history, by the entry's key. */
const entries = new Map<string, Map<string, unknown>>();
let entry = "";

function enter(): void {
  const state = history.state as { readonly key?: string } | null;
  entry = state?.key ?? `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;
  if (!state?.key) history.replaceState({ ...state, key: entry }, "");
}

/** Keeps a value with this entry of the history, so that going back finds it. */
export function keep(name: string, value: unknown): void {
  const known = entries.get(entry) ?? new Map<string, unknown>();
  entries.set(entry, known.set(name, value));
}

export function kept<T>(name: string, otherwise: T): T {
  const known = entries.get(entry);
  return known?.has(name) ? (known.get(name) as T) : otherwise;
}

/** State of a view that is there again when the person comes back to it. */
export function useKept<T>(name: string, initial: T): [T, (value: T) => void] {
  const [value, setValue] = useState(() => kept(name, initial));
  return [
    value,
    (next) => {
      keep(name, next);
      setValue(next);
    },
  ];
}

/** Follows the address from now on. */
export function startRouter(): void {
  history.scrollRestoration = "manual";
  const follow = () => {
    enter();
    address.value = parseAddress(location.hash);
  };
  addEventListener("hashchange", follow);
  addEventListener("scroll", () => keep("scroll", scrollY), { passive: true });
  follow();
}

const LONGEST_MS = 3000;

/** Scrolls to where this entry was left, once the view is long enough; to its top where it is new. */
export function restoreScroll(): () => void {
  const wanted = kept("scroll", 0);
  const ends = performance.now() + LONGEST_MS;
  scrollTo(0, 0);
  let frame = 0;
  const attempt = () => {
    const reach = document.documentElement.scrollHeight - innerHeight;
    if (reach >= wanted || performance.now() > ends) scrollTo(0, wanted);
    else frame = requestAnimationFrame(attempt);
  };
  if (wanted > 0) frame = requestAnimationFrame(attempt);
  return () => cancelAnimationFrame(frame);
}
