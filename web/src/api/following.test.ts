import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Exchange, type FromTab, type ToTab } from "./exchange";
import { Streams } from "./following";

/** A server with a history for each subject; its connections stay open until the test cuts them. */
class Server {
  readonly asked: { follows: string[]; positions: string }[] = [];
  readonly histories = new Map<string, string[]>();
  refuse: Response | Error | null = null;
  private readonly connections = new Set<{
    follows: string[];
    at: number[];
    write: (text: string) => void;
    cut: () => void;
  }>();

  readonly fetch = (url: string, init: RequestInit): Promise<Response> => {
    const follows = new URL(url).searchParams.getAll("follow");
    const positions = new Headers(init.headers).get("Last-Event-ID") ?? "";
    this.asked.push({ follows, positions });
    if (this.refuse) return this.refuse instanceof Error ? Promise.reject(this.refuse) : Promise.resolve(this.refuse);
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    const connection = {
      follows,
      at: positions.split(".").map(Number),
      write: (text: string) => void writer.write(new TextEncoder().encode(text)).catch(() => undefined),
      cut: () => {
        this.connections.delete(connection);
        writer.close().catch(() => undefined);
      },
    };
    this.connections.add(connection);
    init.signal?.addEventListener("abort", () => connection.cut());
    connection.write(": following\n\n");
    this.send();
    return Promise.resolve(new Response(readable, { headers: { "Content-Type": "text/event-stream" } }));
  };

  get open(): number {
    return this.connections.size;
  }

  happen(subject: string, ...data: string[]): void {
    this.histories.set(subject, [...(this.histories.get(subject) ?? []), ...data]);
    this.send();
  }

  say(event: string, data: object): void {
    for (const { at, write } of this.connections)
      write(`id: ${at.join(".")}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  restart(): void {
    for (const { cut } of this.connections) cut();
  }

  private send(): void {
    for (const { follows, at, write } of this.connections)
      follows.forEach((subject, place) => {
        for (const data of this.histories.get(subject)?.slice(at[place]) ?? []) {
          at[place] = (at[place] ?? 0) + 1;
          write(`id: ${at.join(".")}\nevent: steps\ndata: ${JSON.stringify({ subject, data })}\n\n`);
        }
      });
  }
}

let server: Server;
let answers: boolean[];
let streams: Streams;

beforeEach(() => {
  vi.useFakeTimers();
  server = new Server();
  vi.stubGlobal("fetch", server.fetch);
  answers = [];
  streams = new Streams("http://pock/v1", (yes) => answers.push(yes));
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Follows, and keeps what it hears. */
function listen(subject: string, after = 0) {
  const heard = {
    data: [] as unknown[],
    connected: [] as boolean[],
    problems: [] as string[],
    stop: (): void => undefined,
  };
  heard.stop = streams.follow(subject, after, {
    event: (_, data) => heard.data.push(data),
    connected: (connected) => heard.connected.push(connected),
    refused: (problem) => heard.problems.push(problem.detail),
  });
  return heard;
}

const soon = () => vi.advanceTimersByTimeAsync(100);

describe("one stream for all", () => {
  it("is opened once for all who follow at that time", async () => {
    const [a, b] = [listen("runs/1"), listen("runs/2")];
    await soon();
    server.happen("runs/1", "one");
    server.happen("runs/2", "two");
    await soon();
    expect([a.data, b.data]).toEqual([["one"], ["two"]]);
    expect(server.asked).toEqual([{ follows: ["runs/1", "runs/2"], positions: "0.0" }]);
    expect([a.connected, answers]).toEqual([[true], [true]]);
  });

  it("gives who comes later everything, and the others nothing twice", async () => {
    server.happen("runs/1", "one", "two");
    const first = listen("runs/1");
    await soon();
    const second = listen("runs/1");
    server.happen("runs/1", "three");
    await soon();
    server.happen("runs/1", "four");
    await soon();
    expect(first.data).toEqual(["one", "two", "three", "four"]);
    expect(second.data).toEqual(first.data);
    expect(server.open).toBe(1);
  });

  it("goes on after the last event of each when the server was away", async () => {
    server.happen("runs/1", "one");
    server.happen("runs/2", "a", "b");
    const [one, two] = [listen("runs/1"), listen("runs/2")];
    await soon();
    server.refuse = new TypeError("Failed to fetch");
    server.restart();
    await vi.advanceTimersByTimeAsync(3000);
    expect(answers.slice(-2)).toEqual([false, false]);
    server.happen("runs/1", "two");
    server.refuse = null;
    await vi.advanceTimersByTimeAsync(10_000);
    expect([one.data, two.data]).toEqual([
      ["one", "two"],
      ["a", "b"],
    ]);
    expect(server.asked.at(-1)).toEqual({ follows: ["runs/1", "runs/2"], positions: "1.2" });
    expect([one.connected.at(0), one.connected.includes(false), one.connected.at(-1)]).toEqual([true, true, true]);
    expect(answers.at(-1)).toBe(true);
  });

  it("opens again when the connection is silent for too long", async () => {
    listen("runs/1");
    await soon();
    await vi.advanceTimersByTimeAsync(40_000);
    expect(server.asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(server.asked).toHaveLength(2);
  });

  it("closes when nobody follows, and leaves out what nobody follows", async () => {
    const [a, b] = [listen("runs/1"), listen("runs/2")];
    await soon();
    a.stop();
    await vi.advanceTimersByTimeAsync(6000);
    expect(server.asked.at(-1)?.follows).toEqual(["runs/2"]);
    b.stop();
    await soon();
    expect(server.open).toBe(0);
  });

  it("tells who follows what is not there, and nobody else", async () => {
    const [lost, found] = [listen("runs/1"), listen("runs/2")];
    await soon();
    server.say("end", { subject: "runs/1", why: "missing", detail: "There is no run 1." });
    server.happen("runs/2", "one");
    await soon();
    expect([lost.problems, found.problems, found.data]).toEqual([["There is no run 1."], [], ["one"]]);
  });

  it("does not ask again for what is over", async () => {
    const run = listen("runs/1");
    await soon();
    server.happen("runs/1", "last");
    server.say("end", { subject: "runs/1", why: "over" });
    await soon();
    server.restart();
    await vi.advanceTimersByTimeAsync(30_000);
    expect([run.data, run.problems, server.asked.length]).toEqual([["last"], [], 1]);
  });

  it("gives up on an answer that will not change, and tries again after a server's failure", async () => {
    server.refuse = new Response("{}", { status: 503 });
    const run = listen("runs/1");
    await soon();
    server.refuse = new Response(JSON.stringify({ detail: "Sign in again." }), { status: 401 });
    await vi.advanceTimersByTimeAsync(30_000);
    expect([run.problems, server.asked.length]).toEqual([["Sign in again."], 2]);
  });

  it("follows a hundred, and says so to those who are too many", async () => {
    const all = Array.from({ length: 102 }, (_, n) => listen(`runs/${n}`));
    await soon();
    expect(server.asked[0]?.follows).toHaveLength(100);
    expect(all.filter(({ problems }) => problems.length > 0)).toHaveLength(2);
    expect(server.asked).toHaveLength(1);
  });

  it("tells changes of a list to all, however often they have been told", async () => {
    const [a, b] = [listen("runs"), listen("runs")];
    await soon();
    for (let time = 0; time < 2; time++) server.say("changes", { subject: "runs", data: { advanced: ["1"] } });
    await soon();
    expect(a.data).toEqual([{ advanced: ["1"] }, { advanced: ["1"] }]);
    expect(b.data).toEqual(a.data);
  });
});

describe("the tabs of a browser", () => {
  const says = (session: string, ...follows: FromTab["follows"]): FromTab => ({
    base: "http://pock/v1",
    session,
    follows,
  });
  const data = (heard: ToTab[]) => heard.flatMap((message) => (message.kind === "event" ? [message.data] : []));

  it("share a connection, and hear what they follow", async () => {
    const exchange = new Exchange();
    const heard: ToTab[][] = Array.from({ length: 12 }, () => []);
    heard.forEach((list, n) =>
      exchange.admit((message) => list.push(message))(says("s", { n: 1, subject: `runs/${n}`, after: 0 })),
    );
    await soon();
    for (let n = 0; n < 12; n++) server.happen(`runs/${n}`, `of ${n}`);
    await soon();
    expect(heard.map(data)).toEqual(heard.map((_, n) => [`of ${n}`]));
    expect([server.asked.length, server.open]).toEqual([1, 1]);
  });

  it("do not count once they are closed, or silent for long; and miss nothing when they come back", async () => {
    const exchange = new Exchange();
    const heard: ToTab[] = [];
    const tab = exchange.admit((message) => heard.push(message));
    tab(says("s", { n: 1, subject: "runs/1", after: 0 }));
    server.happen("runs/1", "one");
    await soon();
    await vi.advanceTimersByTimeAsync(160_000);
    exchange.sweep();
    await soon();
    expect(server.open).toBe(0);
    server.happen("runs/1", "two");
    tab(says("s", { n: 1, subject: "runs/1", after: 1 }));
    await soon();
    expect(data(heard)).toEqual(["one", "two"]);
    tab(says(""));
    await soon();
    expect(server.open).toBe(0);
  });

  it("hear nothing of another session's stream", async () => {
    const exchange = new Exchange();
    const [first, second]: [ToTab[], ToTab[]] = [[], []];
    const tab = exchange.admit((message) => first.push(message));
    tab(says("alice", { n: 1, subject: "runs", after: 0 }));
    exchange.admit((message) => second.push(message))(says("bob", { n: 1, subject: "builds", after: 0 }));
    await soon();
    expect(server.asked.map(({ follows }) => follows)).toEqual([["runs"], ["builds"]]);
    tab(says("bob", { n: 2, subject: "runs", after: 0 }));
    await soon();
    expect([server.asked.at(-1)?.follows, server.open]).toEqual([["builds", "runs"], 1]);
  });
});
