import { describe, expect, it } from "vitest";
import { factText, readable } from "./facts";

describe("facts", () => {
  it("moves the unit from the name to the value", () => {
    expect(readable("memory_total_bytes")).toBe("Memory total");
    expect(factText("memory_total_bytes", 8 * 1024 ** 3)).toBe("8.00\u00a0GiB");
    expect(factText("temperature_celsius", 41.5)).toBe("41.5 °C");
  });

  it("writes nested and missing values", () => {
    expect(factText("cpu", { model: "A72", cores: 4 })).toBe("Model A72, Cores 4");
    expect(factText("features", ["neon", "fp16"])).toBe("neon, fp16");
    expect(factText("battery_percent", null)).toBe("–");
    expect(factText("throttled", false)).toBe("no");
  });
});
