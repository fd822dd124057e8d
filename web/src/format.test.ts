import { describe, expect, it } from "vitest";
import * as format from "./format";

/** The formats keep a number and its unit on one line. */
const plain = (text: string) => text.replaceAll("\u00a0", " ");

describe("format", () => {
  it.each([
    [0, "0 B"],
    [1023, "1023 B"],
    [1536, "1.50 KiB"],
    [12.34 * 1024 * 1024, "12.3 MiB"],
    [500 * 1024 ** 3, "500 GiB"],
    [null, "–"],
  ])("bytes(%s)", (value, text) => expect(plain(format.bytes(value))).toBe(text));

  it.each([
    [999, "999"],
    [9999, "9,999"],
    [12_345, "12.3 k"],
    [2.5e6, "2.50 M"],
    [3e11, "300 G"],
    [undefined, "–"],
  ])("count(%s)", (value, text) => expect(plain(format.count(value))).toBe(text));

  it.each([0, 7, 999, 1000, 65_536, 123_456, 1_234_567, -1234, -999_999])("grouped(%s)", (value) =>
    expect(format.grouped(value)).toBe(value.toLocaleString("en-US")),
  );

  it.each([
    [0.0123, "12.3 µs"],
    [12.345, "12.3 ms"],
    [2345, "2.35 s"],
  ])("milliseconds(%s)", (value, text) => expect(plain(format.milliseconds(value))).toBe(text));

  it.each([
    [0.0321, "0.032"],
    [1, "1"],
    [3.2e-7, "< 0.0001"],
  ])("probability(%s)", (value, text) => expect(format.probability(value)).toBe(text));

  it("tells differences of shares in points, and ratios", () => {
    expect([format.points(0.0123), format.ratio(1.0342)]).toEqual(["1.2", "1.034"]);
  });

  it.each([
    [2.302585, "2.303"],
    [0.00001234, "1.23e-5"],
    [Number.NaN, "NaN"],
  ])("loss(%s)", (value, text) => expect(format.loss(value)).toBe(text));

  it("says how far a measurement is from the plan", () => {
    expect(plain(format.deviation(103, 100))).toBe("+3.0 %");
    expect(plain(format.deviation(95, 100))).toBe("−5.0 %");
    expect(plain(format.deviation(1, 0))).toBe("–");
  });

  it("never breaks a line between a number and its unit", () => {
    for (const text of [format.bytes(2048), format.count(2e6), format.milliseconds(3), format.percent(0.5)])
      expect(text).toMatch(/^[\d.]+\u00a0\S+$/);
  });

  it.each([
    [-5, "now"],
    [40, "in 40 s"],
    [180, "in 3 min"],
    [7200, "in 2 h"],
    [29 * 86_400, "in 29 days"],
  ])("until(%s s)", (seconds, text) =>
    expect(format.until(new Date(1e12 + seconds * 1000).toISOString(), 1e12)).toBe(text),
  );

  it("writes times in UTC", () => {
    expect(format.utc("2026-11-21T02:49:59.997714+01:00")).toBe("2026-11-21 01:49:59 UTC");
    expect(format.timestamp("2026-11-21T02:49:59")).toBe("2026-11-21 02:49:59");
    expect(format.timestamp(null)).toBe("–");
  });

  it("tells times relative to now", () => {
    const now = Date.parse("2026-01-02T00:00:00Z");
    expect(format.ago("2026-01-01T23:59:56Z", now)).toBe("4 s ago");
    expect(format.ago("2026-01-01T23:59:42Z", now)).toBe("15 s ago");
    expect(format.ago("2026-01-01T23:30:00Z", now)).toBe("30 min ago");
    expect(format.ago("2026-01-01T12:00:00Z", now)).toBe("12 h ago");
    expect(format.ago("2026-01-02T00:00:09Z", now)).toBe("now");
    expect(format.ago(null, now)).toBe("never");
    expect(format.duration("2026-01-01T23:58:55Z", null, now)).toBe("1 min 05 s");
    expect(format.duration("2026-01-01T23:58:55Z", "2026-01-01T23:58:58.2Z", now)).toBe("3.2 s");
  });
});
