/** The YAML of a recipe: changed in its parts, so that what else a person wrote there stays, comments too. */

import { Document, isMap, parseDocument } from "yaml";
import type { Trained } from "./scheme";

/** A text with other rules of what is trained. A text that is no YAML mapping is replaced by the rules alone. */
export function withTrained(text: string, trained: Trained): string {
  const document = mapping(text);
  document.set("update", flow(document, trained.update ?? []));
  if (trained.lora) {
    const before = document.get("lora");
    document.set("lora", flow(document, { ...(isMap(before) ? before.toJSON() : {}), ...trained.lora }));
    if (!trained.update) document.delete("update");
  } else document.delete("lora");
  return document.toString(STYLE);
}

/** A text that trains everything, and else says the same. */
export function withAllTrained(text: string): string {
  const document = mapping(text);
  document.set("update", "full");
  document.delete("lora");
  return document.toString(STYLE);
}

/** A text with another value at a path, such as `["optimizer", "lr"]`. */
export function withValue(text: string, path: readonly string[], value: unknown): string {
  const document = mapping(text);
  document.setIn(path, value);
  return document.toString(STYLE);
}

/** A text of these values in this order; a mapping among them has one line. */
export function written(values: Readonly<Record<string, unknown>>): string {
  const document: Document = new Document({});
  for (const [name, value] of Object.entries(values)) document.set(name, flow(document, value));
  const text = document.toString(STYLE);
  lastRead = { text, document };
  return text;
}

const STYLE = { lineWidth: 100 };

let lastRead = { text: "", document: new Document() };

/** The text as a document that nobody may change. Several ask about the same text: it is read once. */
function read(text: string): Document {
  if (lastRead.text !== text) lastRead = { text, document: parseDocument(text) };
  return lastRead.document;
}

/** What stands at a path; undefined where nothing does, or the text cannot be read. */
export function valueAt(text: string, path: readonly string[]): unknown {
  const document = read(text);
  return document.errors.length > 0 || !isMap(document.contents) ? undefined : document.getIn(path);
}

/** Where the text is no YAML: the line, from 1, and why; null where it is. */
export function syntaxError(text: string): { readonly line: number; readonly message: string } | null {
  const [error] = read(text).errors;
  if (!error) return null;
  return { line: error.linePos?.[0].line ?? 1, message: error.message.split("\n")[0] ?? "this is no YAML" };
}

function mapping(text: string): Document {
  const document = read(text);
  return document.errors.length > 0 || !isMap(document.contents) ? parseDocument("{}\n") : document.clone();
}

/** Each rule in a line of its own. */
function flow(document: Document, value: unknown): unknown {
  const node = document.createNode(value);
  if (isMap(node)) node.flow = true;
  else if (node && typeof node === "object" && "items" in node)
    for (const item of node.items as unknown[]) if (isMap(item)) item.flow = true;
  return node;
}
