/** Following streams, the clock, and what the browser knows, as hooks. */

import { type ReadonlySignal, signal, useComputed } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { lostSince } from "./api/connection";
import type { Problem } from "./api/problem";
import { followSubject } from "./api/streams";

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

const SETTLED_MS = 250;

/** What a person typed, once they pause. */
export function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
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

/** How far from the window, in pixels, a thing is near: what is scrolled to is there by then. */
const NEAR = 800;

/** Whether the element of `ref` is in the window or near it, or ever was. */
export function useNear(ref: { readonly current: Element | null }): boolean {
  const [near, setNear] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (near || !element) return;
    const follow = (entries: IntersectionObserverEntry[]) => entries.some((one) => one.isIntersecting) && setNear(true);
    // In the window and in what scrolls within it; browsers that know only the window's margin have that.
    const margin = "scrollMargin" in IntersectionObserver.prototype ? "scrollMargin" : "rootMargin";
    const observer = new IntersectionObserver(follow, { [margin]: `${NEAR}px` });
    observer.observe(element);
    return () => observer.disconnect();
  }, [near]);
  return near;
}

/** What `load` gives for `key`, once it is there; where the server was away meanwhile, it is fetched when that is back.
 *  Nothing is fetched for null. */
export function useFetched<T>(key: string | null, load: (key: string) => Promise<T>): T | null {
  const [fetched, setFetched] = useState<{ readonly key: string; readonly value: T } | null>(null);
  const away = lostSince.value !== null;
  useEffect(() => {
    if (key === null || away || fetched?.key === key) return;
    let wanted = true;
    load(key).then((value) => wanted && setFetched({ key, value }), reportError);
    return () => {
      wanted = false;
    };
  }, [away, key]);
  return fetched?.key === key ? fetched.value : null;
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

/** Follows an event stream, such as `/runs/ID/events`, while `path` is not null; `onEvent` gets each event's name and its
 * data. All streams of all tabs come over one connection. */
export function useStream(path: string | null, onEvent: (name: string, data: unknown) => void): Stream {
  const [stream, setStream] = useState<Stream>({ connected: false, problem: null });
  const handler = useRef(onEvent);
  handler.current = onEvent;
  useEffect(() => {
    if (path === null) return;
    return followSubject(path.replace(/^\/|\/events$/g, ""), {
      event: (name, data) => handler.current(name, data),
      connected: (connected) => setStream({ connected, problem: null }),
      refused: (problem) => setStream({ connected: false, problem }),
    });
  }, [path]);
  return stream;
}

/** Hands over together what comes in quick succession: the first at once, the others each `everyMs`. `drop` forgets what
 * waits. */
export function useGathered<T>(
  take: (items: readonly T[]) => void,
  everyMs: number,
): { readonly add: (items: readonly T[]) => void; readonly drop: () => void } {
  const handler = useRef(take);
  handler.current = take;
  const waiting = useRef<T[]>([]);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const hand = () => {
    timer.current = 0;
    if (waiting.current.length === 0) return;
    timer.current = setTimeout(hand, everyMs);
    handler.current(waiting.current.splice(0));
  };
  return {
    add: (items) => {
      waiting.current.push(...items);
      if (timer.current === 0) hand();
    },
    drop: () => {
      waiting.current = [];
    },
  };
}

export type Topic = "devices" | "runs" | "builds";

/** What changed in a list, as far as the server tells: rows in another state, and rows that have come further in theirs. */
export interface Changes {
  readonly changed: readonly { readonly id: string; readonly state: string | null }[];
  readonly advanced: readonly string[];
  /** There are more than these. */
  readonly more: boolean;
}

/** At most so often is a list renewed: for rows in another state, unless the view says otherwise, and for such as only
 * came further. */
const CHANGED_MS = 1000;
const ADVANCED_MS = 3000;

/** Calls `onChange` when rows of a list have changed, at once and then at most every `everyMs`; with null after an
 * interruption, when anything may have. In a hidden tab it is called once the person comes back. */
export function useChanges(
  topic: Topic | null,
  onChange: (changes: Changes | null) => void,
  everyMs = CHANGED_MS,
): void {
  const handler = useRef(onChange);
  handler.current = onChange;
  useEffect(() => {
    if (topic === null) return;
    const gathered = new Gathered((changes) => handler.current(changes), everyMs);
    const stop = followSubject(topic, {
      event: (_, data) => gathered.add(data as Changes),
      connected: (connected) => connected && gathered.add(null),
      refused: () => {},
    });
    return () => {
      stop();
      gathered.end();
    };
  }, [topic, everyMs]);
}

/** Changes that are told together, when the last telling is long enough ago. */
class Gathered {
  private waiting: Changes | null | undefined;
  private toldAt = -Infinity;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly tell: (changes: Changes | null) => void,
    private readonly everyMs: number,
  ) {
    document.addEventListener("visibilitychange", this.plan);
  }

  add(changes: Changes | null): void {
    const known = this.waiting;
    if (known === undefined) this.waiting = changes;
    else if (known === null || changes === null || document.visibilityState === "hidden") this.waiting = null;
    else
      this.waiting = {
        changed: [...known.changed, ...changes.changed],
        advanced: [...known.advanced, ...changes.advanced],
        more: known.more || changes.more,
      };
    this.plan();
  }

  end(): void {
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.plan);
  }

  private readonly plan = () => {
    clearTimeout(this.timer);
    const changes = this.waiting;
    if (changes === undefined || document.visibilityState === "hidden") return;
    const only = changes !== null && changes.changed.length === 0 && !changes.more;
    const due = this.toldAt + Math.max(this.everyMs, only ? ADVANCED_MS : 0) - performance.now();
    this.timer = setTimeout(
      () => {
        this.waiting = undefined;
        this.toldAt = performance.now();
        this.tell(changes);
      },
      Math.max(0, due),
    );
  };
}
