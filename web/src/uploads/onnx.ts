/** Which files an ONNX model keeps its weights in, read from its protobuf (onnx.proto3) without any library. Of the file
 * only the beginnings of fields are read: what has a length and leads to no tensor is stepped over. */

import { type Source, Window } from "./bytes";

type Message = "model" | "training" | "function" | "graph" | "node" | "attribute" | "sparse" | "tensor" | "entry";

/** By number of a field, the message in it; of those on the way to a tensor's `external_data`. */
const FIELDS: Readonly<Record<Exclude<Message, "entry">, Readonly<Record<number, Message>>>> = {
  model: { 7: "graph", 20: "training", 25: "function" },
  training: { 1: "graph", 2: "graph" },
  function: { 7: "node", 11: "attribute" },
  graph: { 1: "node", 5: "tensor", 15: "sparse" },
  node: { 5: "attribute" },
  attribute: { 5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse" },
  sparse: { 1: "tensor", 2: "tensor" },
  tensor: { 13: "entry" },
};
const MOST_DEPTH = 100;
const MOST_FIELDS = 20_000_000;
const MOST_NAME = 4096;
export const MOST_FILES = 1000;
/** As the service takes names of external files: relative, without dot segments. */
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]*(\/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$/;

/** Why a file is no model that can be sent, in a sentence. */
export class NoModel extends Error {}

interface Place {
  readonly start: number;
  readonly stop: number;
}

/** The names of its external data files as the model has them, sorted. Throws `NoModel`. */
export function externalFiles(source: Source): string[] {
  const reader = new Reader(new Window(source));
  reader.walk({ start: 0, stop: source.size }, "model", 0);
  if (!reader.hasGraph) throw new NoModel("It holds no graph: this is not an ONNX file.");
  const strange = [...reader.names].find((name) => name.length > 200 || !NAME.test(name));
  if (strange !== undefined) {
    throw new NoModel(`It keeps data in “${strange.slice(0, 200)}”, which is no plain path below its folder.`);
  }
  return [...reader.names].sort();
}

class Reader {
  readonly names = new Set<string>();
  hasGraph = false;
  private fields = 0;

  constructor(private readonly window: Window) {}

  walk(place: Place, message: Message, depth: number): void {
    if (depth > MOST_DEPTH) throw new NoModel("It is nested too deeply to be an ONNX file.");
    if (message === "entry") return this.entry(place);
    const inside = FIELDS[message];
    for (const [number, part] of this.parts(place)) {
      const found = inside[number];
      if (found === undefined) continue;
      if (message === "model" && found === "graph") this.hasGraph = true;
      this.walk(part, found, depth + 1);
    }
  }

  private entry(place: Place): void {
    const texts = new Map<number, string>();
    for (const [number, { start, stop }] of this.parts(place)) {
      const bytes = this.window.range(start, Math.min(stop, start + MOST_NAME));
      texts.set(number, new TextDecoder().decode(bytes));
    }
    if (texts.get(1) !== "location") return;
    this.names.add(texts.get(2) ?? "");
    if (this.names.size > MOST_FILES) throw new NoModel(`It keeps its data in more than ${MOST_FILES} files.`);
  }

  /** The fields of a message that have a length: number and content. */
  private *parts({ start, stop }: Place): Generator<[number, Place]> {
    let at = start;
    while (at < stop) {
      this.fields += 1;
      if (this.fields > MOST_FIELDS) throw new NoModel("It has too many parts to be read here.");
      const [key, after] = this.varint(at, stop);
      const kind = key % 8;
      if (kind === 0) [, at] = this.varint(after, stop);
      else if (kind === 1) at = after + 8;
      else if (kind === 5) at = after + 4;
      else if (kind === 2) {
        const [length, begin] = this.varint(after, stop);
        if (length > stop - begin) throw broken();
        yield [Math.floor(key / 8), { start: begin, stop: begin + length }];
        at = begin + length;
      } else throw broken();
    }
    if (at !== stop) throw broken();
  }

  private varint(at: number, stop: number): [number, number] {
    let value = 0;
    let factor = 1;
    for (let count = 0; count < 10 && at < stop; count += 1, at += 1, factor *= 128) {
      const byte = this.window.byte(at);
      value += (byte % 128) * factor;
      if (byte < 128) return [value, at + 1];
    }
    throw broken();
  }
}

function broken(): NoModel {
  return new NoModel("Its bytes are not those of an ONNX file, or a part is missing.");
}
