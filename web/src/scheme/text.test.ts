import { describe, expect, it } from "vitest";
import { syntaxError, valueAt, withTrained, withValue, written } from "./text";

const TEXT = `# mine
loss: cross_entropy
optimizer: {name: sgd, lr: 0.05} # tried
batch: 8
update:
  - {params: "*.bias"}
`;

describe("texts of recipes", () => {
  it("keep what is not changed, comments too", () => {
    const changed = withTrained(TEXT, { update: [{ params: "head.*" }, { params: "a.weight", channels: 0.5 }] });
    expect(changed).toBe(`# mine
loss: cross_entropy
optimizer: { name: sgd, lr: 0.05 } # tried
batch: 8
update:
  - { params: head.* }
  - { params: a.weight, channels: 0.5 }
`);
    expect(withTrained(changed, { update: [{ params: "*.bias" }] })).toContain("# tried");
  });

  it("lose adapters that are no longer chosen, and rules beside adapters alone", () => {
    const adapted = withTrained(TEXT, { lora: { params: ["a.weight"], rank: 4 } });
    expect(adapted).toContain("lora:");
    expect(adapted).not.toContain("update");
    expect(withTrained(adapted, { update: [{ params: "*" }] })).not.toContain("lora");
  });

  it("that are written here are as if they had been read", () => {
    const settings = { loss: "cross_entropy", optimizer: { name: "adamw", lr: 0.001 }, batch: 8 };
    const text = written({ ...settings, update: [{ params: "head.*" }] });
    expect(text).toBe(`loss: cross_entropy
optimizer: { name: adamw, lr: 0.001 }
batch: 8
update:
  - { params: head.* }
`);
    const changed = withTrained(text, { update: [{ params: "*.bias" }] });
    expect(valueAt(text, ["optimizer", "lr"])).toBe(0.001);
    expect(syntaxError(text)).toBeNull();
    syntaxError("another: text");
    expect(withTrained(text, { update: [{ params: "*.bias" }] })).toBe(changed);
  });

  it("have values that fields show", () => {
    expect(valueAt(TEXT, ["optimizer", "lr"])).toBe(0.05);
    expect(valueAt(withValue(TEXT, ["optimizer", "lr"], 0.1), ["optimizer", "lr"])).toBe(0.1);
    expect(valueAt("loss: [", ["loss"])).toBeUndefined();
  });

  it("say where they are no YAML", () => {
    expect(syntaxError(TEXT)).toBeNull();
    expect(syntaxError("loss: a\nupdate: [\n")?.line).toBeGreaterThan(1);
  });
});
