import { beforeEach, expect, test } from "vitest";
import { Problem } from "../api/client";
import { Transfer, type World } from "./transfer";

const MIB = 1 << 20;
const noConnection = () => new Problem("No connection", "The server does not answer.", 0, null, true);
const problem = (status: number, code: number | null, retryable = false) =>
  new Problem("Refused", `Because of ${code}.`, status, code, retryable);

/** A service in memory. What `faults` holds is thrown by the next call of that name, one after the other. */
class Service implements World {
  uploads = new Map<string, { size: number; received: number }>();
  memory = new Map<string, string>();
  known = new Set<string>();
  calls: string[] = [];
  naps: number[] = [];
  faults: Record<string, (Error | null)[]> = {};
  onSleep: () => void = () => undefined;
  onAppend: () => void = () => undefined;
  partMs = 100;
  private time = 0;

  private fault(name: string): void {
    const next = this.faults[name]?.shift();
    if (next) throw next;
  }

  async digest(file: File, _signal: AbortSignal, onProgress: (done: number) => void) {
    this.calls.push("digest");
    onProgress(file.size);
    return Promise.resolve("d".repeat(64));
  }

  async start(digest: string, size: number) {
    await Promise.resolve();
    this.calls.push("start");
    this.fault("start");
    if (this.known.has(digest)) return { id: "known", offset: size, complete: true };
    const id = `u${this.uploads.size}`;
    this.uploads.set(id, { size, received: 0 });
    return { id, offset: 0, complete: false };
  }

  async offset(id: string) {
    await Promise.resolve();
    this.calls.push("offset");
    this.fault("offset");
    const upload = this.uploads.get(id);
    if (!upload) throw problem(404, 1005);
    return upload.received;
  }

  async append(id: string, offset: number, part: Blob) {
    await Promise.resolve();
    this.calls.push(`append ${offset / MIB}`);
    this.onAppend();
    this.time += this.partMs;
    const upload = this.uploads.get(id);
    if (!upload) throw problem(404, 1005);
    if (upload.received !== offset) throw problem(409, 1010);
    const fault = this.faults.append?.shift();
    if (fault) throw fault;
    upload.received += part.size;
    return upload.received;
  }

  remembered(digest: string) {
    return this.memory.get(digest) ?? null;
  }

  remember(digest: string, id: string | null) {
    if (id === null) this.memory.delete(digest);
    else this.memory.set(digest, id);
  }

  async sleep(milliseconds: number) {
    this.naps.push(milliseconds);
    this.onSleep();
    return Promise.resolve();
  }

  now() {
    return this.time;
  }
}

let service: Service;
beforeEach(() => (service = new Service()));

function transfer(size = 20 * MIB) {
  return new Transfer(new File([new Uint8Array(size)], "net.onnx"), service, () => undefined);
}

test("a file is hashed, sent in growing parts, and forgotten when it is there", async () => {
  const sending = transfer();
  await sending.run();
  expect(sending.progress).toMatchObject({ phase: "done", done: 20 * MIB, known: false });
  expect(service.calls).toEqual([
    "digest",
    "start",
    "offset",
    "append 0",
    "append 1",
    "append 3",
    "append 7",
    "append 15",
  ]);
  expect(service.memory.size).toBe(0);
});

test("what the service has is not sent", async () => {
  service.known.add("d".repeat(64));
  const sending = transfer();
  await sending.run();
  expect(sending.progress).toMatchObject({ phase: "done", known: true });
  expect(service.calls).toEqual(["digest", "start"]);
});

test("after a lost connection it asks for the offset and goes on, with growing pauses", async () => {
  service.faults = { append: [null, noConnection()], offset: [null, noConnection(), noConnection(), noConnection()] };
  const sending = transfer();
  await sending.run();
  expect(sending.progress.phase).toBe("done");
  expect(service.naps).toEqual([1000, 2000, 4000, 8000]);
  expect(service.calls.filter((call) => call === "start")).toHaveLength(1);
  expect(service.calls.filter((call) => call === "append 1")).toHaveLength(2);
  expect(service.calls.filter((call) => call === "append 0")).toHaveLength(1);
});

test("pauses do not grow for ever, and are short again after something arrived", async () => {
  const lost = Array.from({ length: 8 }, noConnection);
  service.faults = { append: [...lost, null, noConnection()] };
  const sending = transfer();
  await sending.run();
  expect(sending.progress.phase).toBe("done");
  expect(service.naps).toEqual([1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000, 1000]);
});

test("another visit goes on where the last one was", async () => {
  service.uploads.set("old", { size: 20 * MIB, received: 12 * MIB });
  service.memory.set("d".repeat(64), "old");
  const sending = transfer();
  await sending.run();
  expect(service.calls.slice(0, 3)).toEqual(["digest", "offset", "append 12"]);
  expect(sending.progress.phase).toBe("done");
});

test("an upload that the service has forgotten begins anew", async () => {
  service.memory.set("d".repeat(64), "long-ago");
  const sending = transfer(MIB);
  await sending.run();
  expect(service.calls).toEqual(["digest", "offset", "start", "offset", "append 0"]);
  expect(sending.progress.phase).toBe("done");
});

test("an upload that is forgotten again and again fails", async () => {
  service.faults = { offset: Array.from({ length: 9 }, () => problem(404, 1005)) };
  const sending = transfer(MIB);
  await sending.run();
  expect(sending.progress).toMatchObject({ phase: "failed", why: "Because of 1005." });
  expect(service.calls.filter((call) => call === "start")).toHaveLength(3);
});

test("a wrong offset is asked for at once; bytes that are being checked are waited for", async () => {
  service.faults = { append: [problem(409, 1010), problem(409, 1030, true)] };
  const sending = transfer(MIB);
  await sending.run();
  expect(sending.progress.phase).toBe("done");
  expect(service.naps).toEqual([1000]);
});

test("what will not pass by itself fails with the service's words", async () => {
  service.faults = { start: [problem(409, 1050)] };
  const sending = transfer(MIB);
  await sending.run();
  expect(sending.progress).toMatchObject({ phase: "failed", why: "Because of 1050." });
  await sending.run();
  expect(sending.progress.phase).toBe("done");
  expect(service.calls.filter((call) => call === "digest")).toHaveLength(1);
});

test("a file that changed meanwhile is told so", async () => {
  service.faults = { append: [problem(460, 1011)] };
  const sending = transfer(MIB);
  await sending.run();
  expect(sending.progress.why).toContain("changed while it was sent");
  expect(service.memory.size).toBe(0);
});

test("who is signed out is paused, and goes on after signing in", async () => {
  service.faults = { append: [null, problem(401, 1002)] };
  const sending = transfer(4 * MIB);
  await sending.run();
  expect(sending.progress).toMatchObject({ phase: "paused", done: MIB });
  await sending.run();
  expect(sending.progress.phase).toBe("done");
  expect(service.calls.filter((call) => call === "start")).toHaveLength(1);
});

test("pausing while the connection is lost, then going on", async () => {
  service.faults = { append: [noConnection()] };
  const sending = transfer(4 * MIB);
  service.onSleep = () => sending.pause();
  await sending.run();
  expect(sending.progress.phase).toBe("paused");
  service.onSleep = () => undefined;
  await sending.run();
  expect(sending.progress.phase).toBe("done");
});

test("what is cancelled stays cancelled, and is forgotten", async () => {
  service.faults = { append: [noConnection()] };
  const sending = transfer(4 * MIB);
  service.onSleep = () => sending.cancel();
  await sending.run();
  expect(sending.progress.phase).toBe("cancelled");
  expect(service.memory.size).toBe(0);
  sending.pause();
  expect(sending.progress.phase).toBe("cancelled");
});

test("parts get smaller on a slow connection, and tell the speed", async () => {
  service.partMs = 4000;
  const sending = transfer(3 * MIB);
  const speeds: (number | null)[] = [];
  service.onAppend = () => speeds.push(sending.progress.bytesPerSecond);
  await sending.run();
  const sent = service.calls.filter((call) => call.startsWith("append"));
  expect(sent.slice(0, 4)).toEqual(["append 0", "append 1", "append 1.5", "append 1.75"]);
  expect(sent.at(-1)).toBe("append 2.75");
  expect(speeds[1]).toBe(MIB / 4);
});
