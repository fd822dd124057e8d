/** Loading data, following streams, and the clock, as hooks. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { follow, get, type Page, Problem } from "./api/client";

export interface Resource<T> {
  readonly data: T | null;
  readonly problem: Problem | null;
  readonly reload: () => void;
}

/** What went wrong, as a problem to show; a programming error still has a text. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem("Unexpected error", error instanceof Error ? error.message : String(error), 0, null, false);
}

/**
 * GETs `path`, again every `everyMs` while the page is visible and on `reload`. The last good data stays while a reload
 * fails, next to the problem. `null` as path loads nothing.
 */
export function useResource<T>(path: string | null, everyMs = 0): Resource<T> {
  const [state, setState] = useState<{ path: string | null; data: T | null; problem: Problem | null }>({
    path: null,
    data: null,
    problem: null,
  });
  const [turn, setTurn] = useState(0);
  const reload = useCallback(() => setTurn((value) => value + 1), []);

  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    get<T>(path, abort.signal).then(
      (data) => setState({ path, data, problem: null }),
      (error: unknown) => {
        if (abort.signal.aborted) return;
        setState((old) => ({ path, data: old.path === path ? old.data : null, problem: asProblem(error) }));
      },
    );
    return () => abort.abort();
  }, [path, turn]);

  useInterval(reload, everyMs);

  const current = state.path === path;
  return { data: current ? state.data : null, problem: current ? state.problem : null, reload };
}

/** The time in milliseconds, renewed every `everyMs`, for "4 s ago". */
export function useNow(everyMs = 1000): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** Width in pixels of the element that gets `ref`; 0 until it is on the page. */
export function useWidth<E extends HTMLElement>(): [{ current: E | null }, number] {
  const ref = useRef<E>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

/** Whether the person's system is dark, following changes: canvas drawings need colours as values. */
export function useDark(): boolean {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const [dark, setDark] = useState(query.matches);
  useEffect(() => {
    const follow = (event: MediaQueryListEvent) => setDark(event.matches);
    query.addEventListener("change", follow);
    return () => query.removeEventListener("change", follow);
  }, []);
  return dark;
}

/** Sets the tab's title while the view is shown. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title === "" ? "PockEngine" : `${title} · PockEngine`;
  }, [title]);
}

export interface List<T> {
  readonly of: Resource<readonly T[]>;
  /** Asks for one page more; null when everything is there. */
  readonly more: (() => void) | null;
}

const PAGE = 100;

/** A paginated list from its start, as many pages as were asked for, renewed every `everyMs`. */
export function useList<T>(path: string, everyMs: number): List<T> {
  const [pages, setPages] = useState(1);
  const [state, setState] = useState<{ items: readonly T[] | null; next: string | null; problem: Problem | null }>({
    items: null,
    next: null,
    problem: null,
  });
  const [turn, setTurn] = useState(0);
  const reload = useCallback(() => setTurn((value) => value + 1), []);

  useEffect(() => {
    const abort = new AbortController();
    const load = async () => {
      const items: T[] = [];
      let next: string | null = null;
      for (let page = 0; page < pages; page += 1) {
        const query = `${path.includes("?") ? "&" : "?"}limit=${PAGE}${next ? `&cursor=${encodeURIComponent(next)}` : ""}`;
        const answer: Page<T> = await get<Page<T>>(path + query, abort.signal);
        items.push(...answer.items);
        next = answer.next_cursor;
        if (next === null) break;
      }
      setState({ items, next, problem: null });
    };
    load().catch((error: unknown) => {
      if (!abort.signal.aborted) setState((old) => ({ ...old, problem: asProblem(error) }));
    });
    return () => abort.abort();
  }, [path, pages, turn]);

  useInterval(reload, everyMs);
  return {
    of: { data: state.items, problem: state.problem, reload },
    more: state.next === null ? null : () => setPages(pages + 1),
  };
}

/** Calls `action` every `everyMs` while the page is visible; 0 means never. */
function useInterval(action: () => void, everyMs: number): void {
  useEffect(() => {
    if (everyMs === 0) return;
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") action();
    }, everyMs);
    return () => clearInterval(timer);
  }, [action, everyMs]);
}

export interface Stream {
  readonly connected: boolean;
  readonly problem: Problem | null;
}

/** Follows an event stream while `path` is not null; `onEvent` gets each event's name and its parsed data. */
export function useStream(path: string | null, onEvent: (name: string, data: unknown) => void): Stream {
  const [stream, setStream] = useState<Stream>({ connected: false, problem: null });
  const handler = useRef(onEvent);
  handler.current = onEvent;
  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    follow(
      path,
      abort.signal,
      ({ event, data }) => handler.current(event, JSON.parse(data)),
      (connected) => setStream({ connected, problem: null }),
    ).catch((error: unknown) => {
      if (!abort.signal.aborted) setStream({ connected: false, problem: asProblem(error) });
    });
    return () => abort.abort();
  }, [path]);
  return stream;
}
