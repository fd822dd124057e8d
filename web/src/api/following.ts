/** One event stream for many followers: what they follow is united, and each gets every event once, in order. */

import { Problem, problemOf } from "./problem";
import { EventStreamParser } from "./sse";

export interface Follower {
  /** `seq` is the number of the event in its subject's history, 0 for changes of a list. */
  readonly event: (name: string, data: unknown, seq: number) => void;
  /** Said again after every interruption: what a list told meanwhile is lost. */
  readonly connected: (connected: boolean) => void;
  /** Nothing will come: the subject is not there, or the session has ended. */
  readonly refused: (problem: Problem) => void;
}

interface Following {
  readonly subject: string;
  /** Number of the last event that the follower has. */
  position: number;
  readonly follower: Follower;
}

/** As many as the server lets one stream follow. */
const MOST = 100;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
/** The server says something every 15 seconds; a connection that is silent for longer is dead. */
const SILENCE_MS = 45_000;
/** Followers come in groups, when a view opens or a browser starts: one connection serves them all. */
const GATHER_MS = 30;
/** What nobody follows any more may stay in the stream for a while. */
const TIDY_MS = 5000;

const TOO_MANY = new Problem(
  "Too many live views",
  `This browser follows more than ${MOST} things at once. Close some tabs, then reload this one.`,
  0,
  null,
  false,
);

/** One server and one session. */
export class Streams {
  private readonly all = new Set<Following>();
  private open: AbortController | null = null;
  /** Whom the open connection serves; who came later waits for the next. */
  private served = new Set<Following>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private due = Infinity;

  constructor(
    private readonly base: string,
    /** Told when the server gave an answer, and when it gave none. */
    private readonly answers: (yes: boolean) => void,
  ) {}

  /** Follows `subject`, such as `runs/ID`, from the event after number `after`; until the returned function is called. */
  follow(subject: string, after: number, follower: Follower): () => void {
    const following = { subject, position: after, follower };
    this.all.add(following);
    this.reopen(GATHER_MS);
    return () => {
      if (this.all.delete(following)) this.reopen(this.all.size === 0 ? GATHER_MS : TIDY_MS);
    };
  }

  private reopen(within: number): void {
    const due = performance.now() + within;
    if (due >= this.due) return;
    clearTimeout(this.timer);
    this.due = due;
    this.timer = setTimeout(() => {
      this.due = Infinity;
      if (!this.isRight()) this.start();
    }, within);
  }

  /** Whether the open connection follows what is wanted. */
  private isRight(): boolean {
    if (this.all.size === 0) return this.open === null;
    if (this.open === null || [...this.all].some((following) => !this.served.has(following))) return false;
    const wanted = new Set([...this.all].map(({ subject }) => subject));
    return [...this.served].every(({ subject }) => wanted.has(subject));
  }

  private start(): void {
    this.open?.abort();
    this.open = null;
    if (this.all.size === 0) return this.served.clear();
    this.open = new AbortController();
    void this.keepOpen(this.open.signal);
  }

  private async keepOpen(signal: AbortSignal): Promise<void> {
    let wait = FIRST_WAIT_MS;
    while (!signal.aborted && this.all.size > 0) {
      try {
        await this.connection(signal, () => (wait = FIRST_WAIT_MS));
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429)
          return this.refuseAll(error);
      }
      if (signal.aborted) return;
      for (const { follower } of this.all) follower.connected(false);
      if (this.all.size === 0) break;
      // Not all browsers at one moment when the server is back.
      await pause(wait * (0.75 + Math.random() / 4), signal);
      wait = Math.min(LONGEST_WAIT_MS, wait * 2);
    }
    if (!signal.aborted) this.open = null;
  }

  /** One connection, until it ends. */
  private async connection(signal: AbortSignal, opened: () => void): Promise<void> {
    const names = [...new Set([...this.all].map(({ subject }) => subject))];
    const followed = names.slice(0, MOST);
    const serving = new Set([...this.all].filter(({ subject }) => followed.includes(subject)));
    this.served = new Set(this.all);
    for (const following of this.all) if (!serving.has(following)) following.follower.refused(TOO_MANY);
    const positions = followed.map((name) =>
      Math.min(...[...serving].filter(({ subject }) => subject === name).map(({ position }) => position)),
    );
    const silence = new Silence(signal);
    try {
      const response = await this.ask(followed, positions, silence.signal);
      opened();
      for (const following of serving) if (this.all.has(following)) following.follower.connected(true);
      const parser = new EventStreamParser();
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const chunk = await reader?.read();
        if (!chunk || chunk.done || signal.aborted) return;
        silence.broken();
        for (const { id, event, data } of parser.push(chunk.value)) this.deliver(serving, followed, id, event, data);
      }
    } finally {
      silence.end();
    }
  }

  private async ask(followed: readonly string[], positions: readonly number[], signal: AbortSignal): Promise<Response> {
    const query = new URLSearchParams(followed.map((name): [string, string] => ["follow", name]));
    const headers = { Accept: "text/event-stream", "Last-Event-ID": positions.join(".") };
    let response: Response;
    try {
      response = await fetch(`${this.base}/events?${query.toString()}`, { headers, signal, cache: "no-store" });
    } catch (error) {
      if (!signal.aborted) this.answers(false);
      throw error;
    }
    this.answers(true);
    if (!response.ok) throw await problemOf(response);
    return response;
  }

  private deliver(
    serving: ReadonlySet<Following>,
    followed: readonly string[],
    id: string | null,
    event: string,
    data: string,
  ): void {
    const told = JSON.parse(data) as { subject: string; data?: unknown; why?: string; detail?: string };
    const seq = Number(id?.split(".")[followed.indexOf(told.subject)] ?? 0);
    for (const following of serving) {
      if (following.subject !== told.subject || !this.all.has(following)) continue;
      if (event === "end") {
        this.all.delete(following);
        if (told.why === "missing")
          following.follower.refused(new Problem("Not found", told.detail ?? "It was deleted.", 404, null, false));
      } else if (event === "changes") following.follower.event(event, told.data, 0);
      else if (seq > following.position) {
        following.position = seq;
        following.follower.event(event, told.data, seq);
      }
    }
  }

  private refuseAll(problem: Problem): void {
    this.open = null;
    const refused = [...this.all];
    this.all.clear();
    for (const { follower } of refused) follower.refused(problem);
  }
}

/** Aborts with `outer`, and when nothing was heard for too long. */
class Silence {
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly outer: AbortSignal) {
    outer.addEventListener("abort", this.abort);
    this.broken();
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  broken(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(this.abort, SILENCE_MS);
  }

  end(): void {
    clearTimeout(this.timer);
    this.outer.removeEventListener("abort", this.abort);
  }

  private readonly abort = () => this.controller.abort();
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    const stop = () => {
      clearTimeout(timer);
      resolve();
    };
    signal.addEventListener("abort", stop, { once: true });
  });
}
