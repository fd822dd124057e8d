/** Sends one file by the service's resumable protocol: hash, ask where to begin, send parts, ask again after whatever
 * went wrong. Knows neither the page nor `fetch`: what it does to the world is in `World`. */

import { Problem } from "../api/client";
import { putOff } from "../api/patience";

export interface Started {
  readonly id: string;
  readonly offset: number;
  readonly complete: boolean;
}

export interface World {
  digest(file: File, signal: AbortSignal, onProgress: (done: number) => void): Promise<string>;
  /** Begins an upload; complete at once where the service has the bytes. */
  start(digest: string, size: number): Promise<Started>;
  /** How much of an upload has arrived. */
  offset(id: string): Promise<number>;
  /** Sends bytes from `offset` on; where the upload stands then. */
  append(id: string, offset: number, part: Blob, signal: AbortSignal): Promise<number>;
  /** The upload of these bytes that another visit began. */
  remembered(digest: string): string | null;
  remember(digest: string, id: string | null): void;
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  now(): number;
}

export type Phase =
  "waiting" | "hashing" | "sending" | "checking" | "lost" | "paused" | "done" | "failed" | "cancelled";

export interface Progress {
  readonly phase: Phase;
  /** Bytes hashed while hashing, else bytes that have arrived. */
  readonly done: number;
  readonly bytesPerSecond: number | null;
  /** Why it waits, pauses or failed, in a sentence. */
  readonly why: string | null;
  /** Nothing had to be sent. */
  readonly known: boolean;
}

export const PHASES_ENDED: readonly Phase[] = ["done", "failed", "cancelled"];

const FIRST_PART = 1 << 20;
const LEAST_PART = 256 << 10;
const LARGEST_PART = 8 << 20;
const MOST_PARTS = 8000;
const PART_MS = 1000;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
const CHECKING_PAUSE_MS = 1000;
/** Uploads that the service forgot while they were sent, before this is told instead of tried once more. */
const MOST_STARTS = 3;
const OFFSET_WRONG = 1010;
const UPLOAD_CHECKING = 1030;
/** Of the measured speed, so that it follows the connection without trembling. */
const NEWER = 0.3;

export class Transfer {
  progress: Progress = { phase: "waiting", done: 0, bytesPerSecond: null, why: null, known: false };
  digest: string | null = null;
  private abort = new AbortController();
  private part = FIRST_PART;

  constructor(
    readonly file: File,
    private readonly world: World,
    private readonly onChange: () => void,
  ) {}

  /** Sends the file to its end, or to where it is paused, cancelled or fails; never throws. Calling again goes on. */
  async run(): Promise<void> {
    this.abort = new AbortController();
    const { signal } = this.abort;
    try {
      this.digest ??= await this.hash(signal);
      await this.deliver(this.digest, signal);
    } catch (error) {
      if (!signal.aborted) this.show({ phase: "failed", why: error instanceof Error ? error.message : String(error) });
    }
  }

  pause(why: string | null = null): void {
    if (PHASES_ENDED.includes(this.progress.phase)) return;
    this.show({ phase: "paused", why, bytesPerSecond: null });
    this.abort.abort();
  }

  cancel(): void {
    if (this.progress.phase === "done") return;
    if (this.digest !== null) this.world.remember(this.digest, null);
    this.show({ phase: "cancelled", why: null, bytesPerSecond: null });
    this.abort.abort();
  }

  private show(changes: Partial<Progress>): void {
    this.progress = { ...this.progress, ...changes };
    this.onChange();
  }

  private async hash(signal: AbortSignal): Promise<string> {
    this.show({ phase: "hashing", done: 0, why: null });
    const began = this.world.now();
    const digest = await this.world.digest(this.file, signal, (done) => {
      if (signal.aborted) return;
      this.show({ done, bytesPerSecond: (1000 * done) / Math.max(1, this.world.now() - began) });
    });
    signal.throwIfAborted();
    this.show({ done: 0, bytesPerSecond: null });
    return digest;
  }

  /** Everything after the digest is known; what passes by itself is tried again until it does. */
  private async deliver(digest: string, signal: AbortSignal): Promise<void> {
    let id = this.world.remembered(digest);
    let starts = 0;
    let pause = FIRST_PAUSE_MS;
    for (;;) {
      try {
        if (id === null) {
          starts += 1;
          const started = await this.world.start(digest, this.file.size);
          signal.throwIfAborted();
          if (started.complete) return this.finish(digest, true);
          id = started.id;
          this.world.remember(digest, id);
        }
        await this.send(id, signal, () => (pause = FIRST_PAUSE_MS));
        return this.finish(digest, false);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof Problem)) throw error;
        if (error.status === 404 && starts < MOST_STARTS) {
          this.world.remember(digest, null);
          id = null;
        } else if (error.status === 401) {
          return this.pause("Sign in again, then go on.");
        } else if (passes(error)) {
          this.show({ phase: "lost", why: error.detail, bytesPerSecond: null });
          await this.world.sleep(Math.max(pause, 1000 * (putOff(error) ?? 0)), signal);
          signal.throwIfAborted();
          pause = Math.min(LONGEST_PAUSE_MS, pause * 2);
        } else {
          this.world.remember(digest, null);
          throw error.status === 460
            ? new Error(`${this.file.name} changed while it was sent. Choose it again.`)
            : error;
        }
      }
    }
  }

  private async send(id: string, signal: AbortSignal, onArrived: () => void): Promise<void> {
    let offset = await this.world.offset(id);
    signal.throwIfAborted();
    this.show({ phase: "sending", done: offset, why: null });
    for (;;) {
      const part = Math.max(this.part, Math.ceil(this.file.size / MOST_PARTS));
      const stop = Math.min(this.file.size, offset + part);
      if (stop === this.file.size) this.show({ phase: offset === stop ? "checking" : "sending" });
      const began = this.world.now();
      try {
        const next = await this.world.append(id, offset, this.file.slice(offset, stop), signal);
        signal.throwIfAborted();
        this.measure(next - offset, this.world.now() - began);
        offset = next;
        onArrived();
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof Problem) || !wantsOffset(error)) throw error;
        // The last part was sent, and its answer is not there yet: an empty one asks for it.
        if (error.failureCode === UPLOAD_CHECKING) {
          this.show({ phase: "checking" });
          await this.world.sleep(CHECKING_PAUSE_MS, signal);
          signal.throwIfAborted();
        }
        offset = await this.world.offset(id);
        signal.throwIfAborted();
        this.show({ done: offset });
        continue;
      }
      this.show({ done: offset });
      if (offset >= this.file.size) return;
    }
  }

  /** Parts take about a second each: long enough to be worth a request, short enough to lose little. */
  private measure(sent: number, milliseconds: number): void {
    if (sent <= 0) return;
    const now = (1000 * sent) / Math.max(1, milliseconds);
    const before = this.progress.bytesPerSecond;
    this.progress = { ...this.progress, bytesPerSecond: before === null ? now : before + NEWER * (now - before) };
    if (milliseconds < PART_MS / 2) this.part = Math.min(LARGEST_PART, this.part * 2);
    else if (milliseconds > 2 * PART_MS) this.part = Math.max(LEAST_PART, this.part / 2);
  }

  private finish(digest: string, known: boolean): void {
    this.world.remember(digest, null);
    this.show({ phase: "done", done: this.file.size, why: null, bytesPerSecond: null, known });
  }
}

function wantsOffset({ failureCode }: Problem): boolean {
  return failureCode === OFFSET_WRONG || failureCode === UPLOAD_CHECKING;
}

/** Whether waiting may help: no answer, a busy or restarting service, a workspace with too many open uploads. */
function passes({ status, retryable }: Problem): boolean {
  return status === 0 || status >= 500 || status === 408 || status === 429 || retryable;
}
