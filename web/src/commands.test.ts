import { describe, expect, it } from "vitest";
import { curl, curlBlob, curlPost, quote } from "./commands";

describe("commands", () => {
  it("quotes what a shell would change", () => {
    expect(quote("http://h:1/v1/runs/7")).toBe("http://h:1/v1/runs/7");
    expect(quote("a?b=1&c=2")).toBe("'a?b=1&c=2'");
    expect(quote("it's $HOME")).toBe("'it'\\''s $HOME'");
  });

  it("names one number", () => {
    expect(curl("/builds/7", ".summary.arena_bytes", "http://h/v1")).toBe(
      'curl -sS -H "Authorization: Bearer $POCK_API_KEY" http://h/v1/builds/7 | jq .summary.arena_bytes',
    );
    expect(curl("/x", ".a[0] | b", "")).toContain("| jq '.a[0] | b'");
  });

  it("never contains a key", () => {
    for (const command of [curl("/a", "", ""), curlBlob("d", "f", ""), curlPost("/b", {}, "")])
      expect(command).toContain("$POCK_API_KEY");
  });
});
