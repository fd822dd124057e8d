/** Requests to `/v1` with this browser's session cookie; every failure becomes a `Problem` that a person can read. */

import { me, signedOut } from "../session";
import { answered, unanswered } from "./connection";
import { freshKey } from "./idempotency";
import { Problem, problemOf } from "./problem";

export { Problem };

/** The service's base path, beside the page, so that a prefix set by a proxy is kept. */
export const BASE = new URL("v1", new URL(".", globalThis.location?.href ?? "http://localhost/")).href;

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

/** PATCH: what is left out of the body stays. */
export function patch<T>(path: string, body: unknown): Promise<T> {
  return change<T>("PATCH", path, body);
}

/** PUT: the body takes the place of what is there. */
export function put<T>(path: string, body: unknown): Promise<T> {
  return change<T>("PUT", path, body);
}

async function change<T>(method: string, path: string, body: unknown): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  const response = await send(path, { method, headers, body: JSON.stringify(body) });
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
