import { expect, test } from "vitest";
import { labelsOf } from "./labels";

test("labels are read as they are typed", () => {
  expect(labelsOf("")).toEqual({ labels: {}, problem: null });
  expect(labelsOf(" room = attic ,rack=a=b, ")).toEqual({ labels: { room: "attic", rack: "a=b" }, problem: null });
});

test("what is no label is told", () => {
  expect(labelsOf("room=attic, attic").problem).toContain("“attic”");
  expect(labelsOf("room=").problem).toContain("key=value");
});
