import { describe, expect, it } from "vitest";
import type { Dataset } from "./api/types";
import { fitOf, misfit, portOf } from "./fit";

const dataset: Dataset = {
  id: "1",
  name: "digits",
  version: 1,
  tags: [],
  digest: "a",
  size: 1,
  samples: 8,
  tensors: [
    { name: "input", dtype: "f32", shape: [8, 3, 4] },
    { name: "labels", dtype: "i64", shape: [8] },
  ],
  device_id: null,
  gone_at: null,
  runs: 0,
  used_at: null,
  created_at: "2026-11-21T01:49:59Z",
};
const input = { name: "input", dtype: "f32", shape: [2, 3, 4] };

describe("fitOf", () => {
  it.each([
    [[input], null],
    [[input, { name: "mask", dtype: "bool", shape: [2], optional: true }], null],
    [[input, { name: "mask", dtype: "bool", shape: [2] }], "has no mask"],
    [[{ ...input, shape: [2, 4, 3] }], "input is 3×4, not 4×3"],
    [[{ ...input, dtype: "i64" }], "input is f32, not i64"],
  ])("%j", (inputs, why) => expect(fitOf(dataset, inputs)).toBe(why));

  it("knows that data on a device stay there", () => {
    expect(fitOf({ ...dataset, device_id: "7" }, [input])).toBe("stays on a device");
  });
});

describe("portOf", () => {
  it.each([
    ["f32[2, 3, 4]", { dtype: "f32", shape: [2, 3, 4] }],
    ["i64[8]", { dtype: "i64", shape: [8] }],
    ["f32[]", { dtype: "f32", shape: [] }],
  ])("reads %s", (type, port) => {
    expect(portOf("input", type)).toEqual({ name: "input", ...port });
  });

  it("is compared with tensors, wherever they are", () => {
    expect(misfit(dataset.tensors, [portOf("input", "f32[16, 3, 4]")])).toBeNull();
    expect(misfit(dataset.tensors, [portOf("input", "f16[16, 3, 4]")])).toBe("input is f32, not f16");
  });
});
