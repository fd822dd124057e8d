/** What this tab follows. One worker holds the stream of all tabs; a browser without such workers has one for each. */

import { me, signedOut } from "../session";
import { BASE } from "./client";
import { answered, unanswered } from "./connection";
import { Exchange, type FromTab, SIGN_OF_LIFE_MS, type ToTab } from "./exchange";
import type { Follower } from "./following";
import { Problem } from "./problem";

interface Followed {
  readonly subject: string;
  after: number;
  readonly follower: Follower;
}

const follows = new Map<number, Followed>();
let last = 0;
let say: ((message: FromTab) => void) | null = null;
let planned = false;

/** Follows `subject`, such as `runs/ID`, or a list such as `runs`, from its first event until the returned function is
 * called. */
export function followSubject(subject: string, follower: Follower): () => void {
  const n = ++last;
  follows.set(n, { subject, after: 0, follower });
  plan();
  return () => {
    follows.delete(n);
    plan();
  };
}

function plan(): void {
  if (planned) return;
  planned = true;
  queueMicrotask(() => {
    planned = false;
    speak();
  });
}

function speak(): void {
  if (!say && follows.size === 0) return;
  say ??= connect();
  const who = me.peek();
  const named = [...follows].map(([n, { subject, after }]) => ({ n, subject, after }));
  say({ base: BASE, session: who?.session_id ?? "", follows: who ? named : [] });
}

function connect(): (message: FromTab) => void {
  setInterval(() => follows.size > 0 && speak(), SIGN_OF_LIFE_MS);
  addEventListener("pagehide", () => say?.({ base: BASE, session: "", follows: [] }));
  // A tab that was frozen, or kept for "back", is there again.
  addEventListener("pageshow", speak);
  document.addEventListener("visibilitychange", speak);
  if (typeof SharedWorker === "undefined") return new Exchange().admit(hear);
  const worker = new SharedWorker(new URL("./streams.worker.ts", import.meta.url), {
    type: "module",
    name: "pock-streams",
  });
  worker.port.onmessage = ({ data }: MessageEvent<ToTab>) => hear(data);
  return (message) => worker.port.postMessage(message);
}

function hear(message: ToTab): void {
  if (message.kind === "answers") return message.yes ? answered() : unanswered();
  const followed = follows.get(message.n);
  if (!followed) return;
  if (message.kind === "connected") return followed.follower.connected(message.connected);
  if (message.kind === "event") {
    if (message.seq > 0) followed.after = message.seq;
    return followed.follower.event(message.name, message.data, message.seq);
  }
  follows.delete(message.n);
  const { title, detail, status, failureCode, retryable } = message.problem;
  if (status === 401 && me.peek()) return signedOut(detail);
  followed.follower.refused(new Problem(title, detail, status, failureCode, retryable));
}
