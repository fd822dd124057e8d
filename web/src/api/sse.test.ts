import { describe, expect, it } from "vitest";
import { EventStreamParser } from "./sse";

const STREAM = 'id: 4\nevent: steps\ndata: {"items":\ndata: []}\n\n: keep-alive\n\nid: 5\ndata: x\n\nretry: 250\n\n';

describe("EventStreamParser", () => {
  it("reads events, joins data lines and skips comments", () => {
    const parser = new EventStreamParser();
    expect(parser.push(STREAM)).toEqual([
      { id: "4", event: "steps", data: '{"items":\n[]}' },
      { id: "5", event: "message", data: "x" },
    ]);
    expect(parser.lastId).toBe("5");
    expect(parser.retry).toBe(250);
  });

  it("gives the same events however the text is cut", () => {
    const whole = new EventStreamParser().push(STREAM);
    for (let size = 1; size < STREAM.length; size += 1) {
      const parser = new EventStreamParser();
      const events = [];
      for (let at = 0; at < STREAM.length; at += size) events.push(...parser.push(STREAM.slice(at, at + size)));
      expect(events).toEqual(whole);
    }
  });

  it("takes all three line endings, also when CR and LF arrive apart", () => {
    const parser = new EventStreamParser();
    expect(parser.push("data: a\r\n\r")).toEqual([]);
    expect(parser.push("\ndata: b\r\r\n")).toHaveLength(2);
  });

  it("keeps the last id for events without one", () => {
    const parser = new EventStreamParser();
    parser.push("id: 9\ndata: a\n\n");
    expect(parser.push("data: b\n\n")[0]?.id).toBe("9");
  });

  it("holds back an event whose blank line has not come", () => {
    const parser = new EventStreamParser();
    expect(parser.push("data: a\n")).toEqual([]);
    expect(parser.push("\n")).toHaveLength(1);
  });
});
