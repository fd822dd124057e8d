import { expect, test } from "vitest";
import { bytesSource } from "./bytes";
import { whyNoDataset } from "./safetensors";

function file(header: unknown, length?: number) {
  const text = new TextEncoder().encode(typeof header === "string" ? header : JSON.stringify(header));
  const bytes = new Uint8Array(8 + text.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length ?? text.length), true);
  bytes.set(text, 8);
  return bytesSource(bytes);
}

const tensor = (...shape: number[]) => ({ dtype: "F32", shape, data_offsets: [0, 0] });

test("a file whose tensors have the same samples looks like a dataset", () => {
  expect(whyNoDataset(file({ __metadata__: { a: "b" }, input: tensor(6, 2), labels: tensor(6) }))).toBeNull();
});

test.each([
  [bytesSource(new Uint8Array(3)), "too short"],
  [file({}, 2 ** 40), "not a safetensors file"],
  [file({}, 500), "not a safetensors file"],
  [file("{nonsense"), "cannot be read"],
  [file([1]), "describes no tensors"],
  [file("null"), "describes no tensors"],
  [file({}), "no tensors"],
  [file({ x: null }), "no dimension"],
  [file({ x: tensor() }), "no dimension"],
  [file({ x: tensor(0, 2) }), "zero samples"],
  [file({ x: tensor(6), y: tensor(5) }), "“y” has 5 samples, but “x” has 6"],
])("what is no dataset is told, %#", (source, says) => {
  expect(whyNoDataset(source)).toContain(says);
});
