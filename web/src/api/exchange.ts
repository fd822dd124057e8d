/** Between the tabs of a browser and their one stream: each tab says what it follows, and hears of nothing else. */

import { Streams } from "./following";
import type { Problem } from "./problem";

/** All that a tab follows now; said again every so often as a sign of life, and empty when the tab closes. */
export interface FromTab {
  readonly base: string;
  /** The session in which it follows. */
  readonly session: string;
  readonly follows: readonly { readonly n: number; readonly subject: string; readonly after: number }[];
}

export type ToTab =
  | { readonly kind: "event"; readonly n: number; readonly name: string; readonly data: unknown; readonly seq: number }
  | { readonly kind: "connected"; readonly n: number; readonly connected: boolean }
  | { readonly kind: "refused"; readonly n: number; readonly problem: Pick<Problem, keyof Problem> }
  | { readonly kind: "answers"; readonly yes: boolean };

/** Browsers let a hidden tab speak once a minute. */
export const SIGN_OF_LIFE_MS = 20_000;
const GONE_MS = 150_000;

interface Tab {
  readonly send: (message: ToTab) => void;
  readonly follows: Map<number, () => void>;
  session: string;
  heardAt: number;
}

export class Exchange {
  private readonly streams = new Map<string, Streams>();
  private readonly tabs = new Set<Tab>();

  /** Lets a tab in; the returned function takes what it says. */
  admit(send: (message: ToTab) => void): (message: FromTab) => void {
    const tab: Tab = { send, follows: new Map(), session: "", heardAt: 0 };
    return (message) => {
      tab.heardAt = performance.now();
      this.tabs.add(tab);
      this.hear(tab, message);
    };
  }

  /** Forgets tabs that crashed or were frozen; one that speaks again says from where on it has missed something. */
  sweep(): void {
    for (const tab of this.tabs) if (performance.now() - tab.heardAt > GONE_MS) this.leave(tab);
  }

  private hear(tab: Tab, { base, session, follows }: FromTab): void {
    if (tab.session !== session) this.leave(tab);
    tab.session = session;
    this.tabs.add(tab);
    const wanted = new Set(follows.map(({ n }) => n));
    for (const [n, stop] of tab.follows) if (!wanted.has(n)) this.drop(tab, n, stop);
    for (const { n, subject, after } of follows) if (!tab.follows.has(n)) this.follow(tab, base, n, subject, after);
    if (follows.length === 0) this.tabs.delete(tab);
  }

  private follow(tab: Tab, base: string, n: number, subject: string, after: number): void {
    const stop = this.streamsOf(base, tab.session).follow(subject, after, {
      event: (name, data, seq) => tab.send({ kind: "event", n, name, data, seq }),
      connected: (connected) => tab.send({ kind: "connected", n, connected }),
      refused: ({ title, detail, status, failureCode, retryable, errors, retryAfter, name, message }) =>
        tab.send({
          kind: "refused",
          n,
          problem: { title, detail, status, failureCode, retryable, errors, retryAfter, name, message },
        }),
    });
    tab.follows.set(n, stop);
  }

  /** Each session has a stream of its own: after another one signed in, nothing reaches whoever still shows the first. */
  private streamsOf(base: string, session: string): Streams {
    const key = `${session} ${base}`;
    const known = this.streams.get(key);
    if (known) return known;
    const made = new Streams(base, (yes) => {
      for (const tab of this.tabs) if (tab.session === session) tab.send({ kind: "answers", yes });
    });
    this.streams.set(key, made);
    return made;
  }

  private drop(tab: Tab, n: number, stop: () => void): void {
    stop();
    tab.follows.delete(n);
  }

  private leave(tab: Tab): void {
    for (const [n, stop] of tab.follows) this.drop(tab, n, stop);
    this.tabs.delete(tab);
  }
}
