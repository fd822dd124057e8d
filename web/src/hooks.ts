/** Following streams, the clock, and what the browser knows, as hooks. */

import { type ReadonlySignal, signal, useComputed } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { follow, type Problem } from "./api/client";
import { asProblem } from "./data";

/** The time in milliseconds, renewed each second while the page is visible: one clock for all that is shown. */
const now = signal(Date.now());
setInterval(() => {
  if (document.visibilityState === "visible") now.value = Date.now();
}, 1000);

/** The time in milliseconds, renewed each second, for "4 s ago". Where many are shown, `Ago` changes less of the page. */
export function useNow(): number {
  return now.value;
}

/** What `text` says of the present time; whoever shows it is drawn again only when that changes. */
export function useClock(text: (now: number) => string): ReadonlySignal<string> {
  return useComputed(() => text(now.value));
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
