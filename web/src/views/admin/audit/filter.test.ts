import { describe, expect, it } from "vitest";
import { auditQuery, changeText, localField, momentOf, valueText } from "./filter";

describe("the filter of the audit log", () => {
  it("asks the server in its words, for nothing else", () => {
    const query = new URLSearchParams("action=device.revoke&kind=&object= 7 &member=5&other=1");
    expect(auditQuery(query)).toBe("?action=device.revoke&object_id=7&member_id=5");
    expect(auditQuery(new URLSearchParams("x=1"))).toBe("");
  });

  it("keeps a local time through the address", () => {
    expect(localField(momentOf("2026-11-21T02:49"))).toBe("2026-11-21T02:49");
    expect(momentOf("2026-11-21T02:49")).toMatch(/^2026-11-2\dT\d\d:\d\d:00Z$/);
    expect([localField("soon"), localField(null), momentOf(""), momentOf("soon")]).toEqual(["", "", null, null]);
  });

  it.each([
    [{ before: "viewer", after: "operator" }, "viewer → operator"],
    [{ before: null, after: ["read"] }, '["read"]'],
    [{ before: { a: 1 }, after: null }, '{"a":1} → nothing'],
    [{}, "nothing"],
  ])("tells the change %j", (change, text) => expect(changeText(change)).toBe(text));

  it("cuts what is long", () => expect(valueText("x".repeat(500))).toHaveLength(161));
});
