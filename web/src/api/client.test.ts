import { afterEach, describe, expect, it, vi } from "vitest";
import { me, signInReason } from "../session";
import { restore, signIn, signOut } from "./account";
import { get, post, Problem } from "./client";
import { problemOf } from "./problem";
import type { Me } from "./types";

/** Answers requests one after the other, and keeps what was asked. */
function answerWith(...responses: (Response | Error)[]): Request[] {
  const asked: Request[] = [];
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    asked.push(new Request(url, init));
    const next = responses.shift();
    if (next === undefined) return new Promise(() => undefined);
    return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
  });
  return asked;
}

const problem = (status: number, body: unknown) => new Response(JSON.stringify(body), { status });

afterEach(() => {
  vi.unstubAllGlobals();
  me.value = undefined;
});

describe("requests", () => {
  it("carry no key, and a fresh idempotency key when they create something", async () => {
    const asked = answerWith(Response.json({}), Response.json({}), Response.json({}));
    await get("/devices");
    await post("/runs", { steps: 1 });
    await post("/runs", { steps: 1 });
    expect(asked.map((request) => request.headers.get("Authorization"))).toEqual(Array(3).fill(null));
    const [, first, second] = asked.map((request) => request.headers.get("Idempotency-Key"));
    expect(first).toMatch(/^[0-9a-f]{32}$/);
    expect(second).not.toBe(first);
  });

  it("fail with the server's problem", async () => {
    answerWith(problem(422, { title: "Bad recipe", detail: "No such loss.", failure_code: 3003, retryable: false }));
    await expect(get("/builds")).rejects.toMatchObject({
      title: "Bad recipe",
      detail: "No such loss.",
      status: 422,
      failureCode: 3003,
    });
  });

  it("say so when nobody answers", async () => {
    answerWith(new TypeError("Failed to fetch"));
    await expect(get("/builds")).rejects.toMatchObject({ title: "No connection", retryable: true });
  });
});

const ALICE = { name: "alice" } as Me;
const ended = (code: number) => problem(401, { detail: "Sign in again.", failure_code: code });

describe("the session", () => {
  it("is opened with a key that is sent once", async () => {
    const asked = answerWith(Response.json({}, { status: 201 }), Response.json(ALICE));
    await signIn("pk_1_a");
    expect(asked.map((request) => request.headers.get("Authorization"))).toEqual(["Bearer pk_1_a", null]);
    expect(me.value).toEqual(ALICE);
  });

  it("stays closed when the key opens nothing", async () => {
    answerWith(ended(1001));
    await expect(signIn("pk_1_a")).rejects.toBeInstanceOf(Problem);
    expect(me.value).toBeUndefined();
  });

  it("ends with the first answer that says so, and the page learns why", async () => {
    me.value = ALICE;
    answerWith(ended(1023));
    await expect(get("/devices")).rejects.toBeInstanceOf(Problem);
    expect(me.value).toBeNull();
    expect(signInReason.value).toBe("Sign in again.");
  });

  it("does not end by an answer to an earlier one", async () => {
    me.value = ALICE;
    answerWith(ended(1023));
    const asking = get("/devices");
    const bob = { name: "bob" } as Me;
    me.value = bob;
    await expect(asking).rejects.toBeInstanceOf(Problem);
    expect(me.value).toBe(bob);
  });

  it("ends when signing out, also if it had ended before, but not if nobody was told", async () => {
    me.value = ALICE;
    answerWith(new TypeError("Failed to fetch"), new Response(null, { status: 204 }), ended(1023));
    await expect(signOut()).rejects.toBeInstanceOf(Problem);
    expect(me.value).toBe(ALICE);
    await signOut();
    expect(me.value).toBeNull();
    me.value = ALICE;
    await signOut();
    expect(me.value).toBeNull();
    expect(signInReason.value).toBeNull();
  });

  it("is found again in a new tab, and asked for where there is none", async () => {
    vi.stubGlobal("location", { hash: "#/fleet" });
    answerWith(Response.json(ALICE), ended(1001), ended(1023), new TypeError("Failed to fetch"));
    await restore();
    expect(me.value).toEqual(ALICE);
    me.value = undefined;
    await restore();
    expect([me.value, signInReason.value]).toEqual([null, null]);
    me.value = undefined;
    await restore();
    expect([me.value, signInReason.value]).toEqual([null, "Sign in again."]);
    me.value = undefined;
    await expect(restore()).rejects.toBeInstanceOf(Problem);
    expect(me.value).toBeUndefined();
  });
});

describe("problemOf", () => {
  it("makes do with an answer that is not a problem", async () => {
    const found = await problemOf(
      new Response("<h1>Bad gateway</h1>\nmore", { status: 502, statusText: "Bad Gateway" }),
    );
    expect(found).toMatchObject({
      title: "Bad Gateway",
      detail: "<h1>Bad gateway</h1>",
      status: 502,
      failureCode: null,
    });
    expect((await problemOf(new Response("", { status: 500 }))).detail).toBe("The server answered 500.");
  });
});
