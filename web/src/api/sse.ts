/** Server-sent events over `fetch`, because `EventSource` does not say why it was refused. */

export interface ServerEvent {
  readonly id: string | null;
  readonly event: string;
  readonly data: string;
}

/**
 * Incremental parser of `text/event-stream` (WHATWG HTML, section 9.2.6). Feed it text as it arrives, in any cuts; it
 * returns the events that are complete. Comments (keep-alives) and events without data give nothing.
 */
export class EventStreamParser {
  private buffer = "";
  private event = "";
  private data: string[] = [];
  /** The last id seen; it stays for following events that have none, as the standard says. */
  lastId: string | null = null;
  /** Milliseconds that the server asks to wait before reconnecting, if it said so. */
  retry: number | null = null;

  push(text: string): ServerEvent[] {
    this.buffer += text;
    const complete: ServerEvent[] = [];
    for (;;) {
      const match = /\r\n|\n|\r(?!$)/.exec(this.buffer);
      if (!match) return complete;
      const line = this.buffer.slice(0, match.index);
      this.buffer = this.buffer.slice(match.index + match[0].length);
      const event = this.line(line);
      if (event) complete.push(event);
    }
  }

  private line(line: string): ServerEvent | null {
    if (line === "") return this.dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return null;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.event = value;
    else if (field === "data") this.data.push(value);
    else if (field === "id" && !value.includes("\0")) this.lastId = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
    return null;
  }

  private dispatch(): ServerEvent | null {
    const { event, data } = this;
    this.event = "";
    this.data = [];
    if (data.length === 0) return null;
    return { id: this.lastId, event: event || "message", data: data.join("\n") };
  }
}
