/** Requests to `/v1` with this browser's session cookie; every failure becomes a `Problem` that a person can read. */

import { me, signedOut } from "../session";
import { answered, unanswered } from "./connection";
import { freshKey } from "./idempotency";
import { EventStreamParser, type ServerEvent } from "./sse";

/** The service's base path, beside the page, so that a prefix set by a proxy is kept. */
export const BASE = new URL("v1", new URL(".", globalThis.location?.href ?? "http://localhost/")).href;

/** One part of a request that was wrong; `line` of a recipe's text, from 1. */
export interface FieldError {
  readonly where: string;
  readonly message: string;
  readonly line?: number | null;
}

/** RFC 9457 problem, or what stands in for one when the answer was something else. */
export class Problem extends Error {
  constructor(
    readonly title: string,
    readonly detail: string,
    readonly status: number,
    readonly failureCode: number | null,
    readonly retryable: boolean,
    readonly errors: readonly FieldError[] = [],
  ) {
    super(detail);
  }
}

/** Reads a failed response; a body that is not problem+json still gives its status and text. */
export async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  let body: Record<string, unknown> = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null) body = parsed as Record<string, unknown>;
  } catch {
    // Not JSON: a proxy's page, for instance. Its first line says more than nothing.
  }
  const string = (value: unknown, otherwise: string) => (typeof value === "string" && value ? value : otherwise);
  return new Problem(
    string(body.title, response.statusText || "Request failed"),
    string(body.detail, text.split("\n")[0]?.slice(0, 300) || `The server answered ${response.status}.`),
    response.status,
    typeof body.failure_code === "number" ? body.failure_code : null,
    body.retryable === true,
    Array.isArray(body.errors) ? (body.errors as FieldError[]) : [],
  );
}

/** One request. A `key` is used in place of the cookie, for this request alone. */
export async function send(path: string, init: RequestInit, key: string | null = null): Promise<Response> {
  const headers = new Headers(init.headers);
  if (key !== null) headers.set("Authorization", `Bearer ${key}`);
  const who = me.peek();
  let response: Response;
  try {
    response = await fetch(BASE + path, { ...init, headers, cache: "no-store" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    unanswered();
    throw new Problem("No connection", "The server does not answer. Is `pock serve` running?", 0, null, true);
  }
  answered();
  if (response.ok) return response;
  const problem = await problemOf(response);
  // An answer to a session that has been replaced meanwhile must not end the present one.
  if (response.status === 401 && key === null && who && who === me.peek()) signedOut(problem.detail);
  throw problem;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await send(path, signal ? { signal } : {});
  return (await response.json()) as T;
}

export async function getText(path: string, signal?: AbortSignal): Promise<string> {
  const response = await send(path, signal ? { signal } : {});
  return response.text();
}

/** POST with a fresh idempotency key, so that a repeated click or a retry creates nothing twice. */
export async function post<T>(path: string, body: unknown): Promise<T> {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": freshKey() };
  const response = await send(path, { method: "POST", headers, body: JSON.stringify(body) });
  return (await response.json()) as T;
}

/** POST that asks and changes nothing. */
export async function ask<T>(path: string, body: unknown, signal: AbortSignal): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  const response = await send(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  return (await response.json()) as T;
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly next_cursor: string | null;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/**
 * Follows an event stream until `signal` aborts, reconnecting with `Last-Event-ID`. The wait before another try doubles
 * after every failed one. An answer that trying again cannot change (4xx) ends it with that problem.
 */
export async function follow(
  path: string,
  signal: AbortSignal,
  onEvent: (event: ServerEvent) => void,
  onConnected: (connected: boolean) => void,
): Promise<void> {
  let lastId: string | null = null;
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    const parser = new EventStreamParser();
    parser.lastId = lastId;
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (lastId !== null) headers["Last-Event-ID"] = lastId;
      const response = await send(path, { headers, signal });
      onConnected(true);
      wait = FIRST_WAIT_MS;
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const chunk = await reader?.read();
        if (!chunk || chunk.done) break;
        for (const event of parser.push(chunk.value)) {
          lastId = event.id;
          onEvent(event);
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status >= 400 && error.status < 500) throw error;
    }
    onConnected(false);
    await pause(parser.retry ?? wait, signal);
    wait = Math.min(LONGEST_WAIT_MS, wait * 2);
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
