import { describe, expect, it } from "vitest";
import { factRows, factText, readable } from "./facts";

describe("facts", () => {
  it("moves the unit from the name to the value", () => {
    expect(readable("memory_total_bytes")).toBe("Memory total");
    expect(readable("cpus")).toBe("Cpus");
    expect(factText("memory_total_bytes", 8 * 1024 ** 3)).toBe("8.00\u00a0GiB");
    expect(factText("temperature_c", 41.5)).toBe("41.5 °C");
    expect(factText("idle_seconds", 1.5)).toBe("1.50\u00a0s");
  });

  it("writes nested values and leaves out what is unknown", () => {
    expect(factText("cpu", { model: "A72", cores: 4, cache_bytes: null })).toBe("model A72, cores 4");
    expect(factText("features", ["neon", "fp16"])).toBe("neon, fp16");
    expect(factText("samples", [{ temperature_c: 1 }, { temperature_c: 2 }])).toBe("2 records");
    expect(factText("throttled", false)).toBe("no");
    expect(factRows({ battery_percent: null, throttled: true, health: { temperature_c: null } })).toEqual([
      ["Throttled", "yes"],
    ]);
  });
});
