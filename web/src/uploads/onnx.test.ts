import { expect, test } from "vitest";
import { bytesSource, type Source } from "./bytes";
import { externalFiles, MOST_FILES, NoModel } from "./onnx";

const text = (value: string) => [...new TextEncoder().encode(value)];

function varint(value: number): number[] {
  const bytes: number[] = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  return [...bytes, value];
}

/** A field with a length. */
const field = (number: number, content: number[]) => [...varint(number * 8 + 2), ...varint(content.length), ...content];
const entry = (key: string, value: string) => field(13, [...field(1, text(key)), ...field(2, text(value))]);
const tensor = (name: string) => [...field(8, text("w")), ...entry("offset", "0"), ...entry("location", name)];
const graph = (...tensors: number[][]) => tensors.flatMap((one) => field(5, one));
const model = (content: number[]) => [...varint(1 * 8), 9, ...field(2, text("pytorch")), ...field(7, content)];
const read = (bytes: number[]) => externalFiles(bytesSource(Uint8Array.from(bytes)));

test("the files that tensors name are found, each once and sorted", () => {
  const bytes = model([...graph(tensor("w.data"), tensor("a/b.bin"), tensor("w.data")), ...field(2, text("main"))]);
  expect(read(bytes)).toEqual(["a/b.bin", "w.data"]);
});

test("a model without external data names none", () => {
  expect(read(model(graph(field(9, [1, 2, 3, 4]))))).toEqual([]);
});

test("tensors of attributes, subgraphs, functions and sparse tensors are found", () => {
  const inAttribute = field(1, field(5, field(5, tensor("attribute.bin"))));
  const inSubgraph = field(1, field(5, field(6, graph(tensor("branch.bin")))));
  const inSparse = field(15, field(1, tensor("sparse.bin")));
  const inFunction = field(25, field(7, field(5, field(10, tensor("function.bin")))));
  const bytes = [...model([...inAttribute, ...inSubgraph, ...inSparse]), ...inFunction];
  expect(read(bytes)).toEqual(["attribute.bin", "branch.bin", "function.bin", "sparse.bin"]);
});

test("large weights inside of the file are stepped over, not read", () => {
  const head = model(graph(tensor("w.data")));
  const size = 3 * 2 ** 30;
  // raw_data of 3 GiB as the last tensor of a second part of the graph
  const raw = (length: number) => [...varint(9 * 8 + 2), ...varint(length)];
  const weights = (length: number) => [...varint(5 * 8 + 2), ...varint(raw(length).length + length), ...raw(length)];
  const inner = weights(size);
  const bytes = [...head, ...varint(7 * 8 + 2), ...varint(inner.length + size), ...inner];
  let touched = 0;
  const source: Source = {
    size: bytes.length + size,
    read: (start, stop) => {
      touched += stop - start;
      const part = new Uint8Array(stop - start);
      part.set(bytes.slice(start, Math.min(stop, bytes.length)));
      return part;
    },
  };
  expect(externalFiles(source)).toEqual(["w.data"]);
  expect(touched).toBeLessThan(1 << 20);
});

test.each(["../up", "/etc/passwd", "a/../b", ".hidden", "a//b", "", "a\\b", "a/", "x".repeat(201)])(
  "data in %j is refused",
  (name) => {
    expect(() => read(model(graph(tensor(name))))).toThrow(/no plain path/);
  },
);

test("what is no ONNX file is refused with a sentence", () => {
  const broken = [
    text("PK\u0003\u0004 a zip"),
    text("# a recipe\nloss: cross_entropy\n"),
    [0x3a, 0xff, 0xff, 0xff, 0xff, 0x0f],
    new Array<number>(100).fill(0xff),
    model(graph(tensor("w"))).slice(0, -1),
    [],
    [...varint(1 * 8), 9],
    [11, 12],
  ];
  for (const bytes of broken) expect(() => read(bytes)).toThrow(NoModel);
});

test("nesting, and the number of files, are bounded", () => {
  let content: number[] = graph(tensor("w"));
  for (let depth = 0; depth < 60; depth += 1) content = field(1, field(5, field(6, content)));
  expect(() => read(model(content))).toThrow(/nested/);
  const many = Array.from({ length: MOST_FILES + 1 }, (_, index) => tensor(`w${index}`));
  expect(() => read(model(graph(...many)))).toThrow(/more than 1000/);
});
