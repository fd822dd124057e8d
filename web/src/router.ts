/** Routes live in the fragment (`#/runs/ID`), so the page works from any static folder and under any prefix. */

import { signal } from "@preact/signals";

export type Route =
  | { readonly view: "start" | "fleet" | "models" | "builds" | "runs" | "missing" }
  | { readonly view: "device" | "model" | "build" | "artifact" | "run"; readonly id: string };

const LISTS = ["fleet", "models", "builds", "runs"] as const;
const DETAILS = { devices: "device", models: "model", builds: "build", artifacts: "artifact", runs: "run" } as const;

/** "#/runs/ID" -> the run view. An unknown address is the "missing" view, never an error. */
export function parseRoute(fragment: string): Route {
  const [first, second, ...rest] = fragment
    .replace(/^#?\/?/, "")
    .split("/")
    .filter(Boolean);
  if (first === undefined) return { view: "start" };
  if (rest.length > 0) return { view: "missing" };
  if (second === undefined) {
    const list = LISTS.find((name) => name === first);
    return { view: list ?? "missing" };
  }
  const detail = Object.entries(DETAILS).find(([folder]) => folder === first);
  return detail ? { view: detail[1], id: decodeURIComponent(second) } : { view: "missing" };
}

export const route = signal<Route>({ view: "start" });

/** Follows the address from now on. */
export function startRouter(): void {
  const follow = () => {
    route.value = parseRoute(location.hash);
  };
  addEventListener("hashchange", follow);
  follow();
}

export const link = {
  device: (id: string) => `#/devices/${encodeURIComponent(id)}`,
  model: (id: string) => `#/models/${encodeURIComponent(id)}`,
  build: (id: string) => `#/builds/${encodeURIComponent(id)}`,
  artifact: (digest: string) => `#/artifacts/${encodeURIComponent(digest)}`,
  run: (id: string) => `#/runs/${encodeURIComponent(id)}`,
};
