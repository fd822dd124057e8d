/** What a device says about itself, in words: names carry their unit, so the value can be written with it. */

import * as format from "./format";

const UNITS: Readonly<Record<string, (value: number) => string>> = {
  bytes: format.bytes,
  ms: format.milliseconds,
  seconds: (value) => format.milliseconds(value * 1000),
  c: (value) => `${value} °C`,
  celsius: (value) => `${value} °C`,
  mhz: (value) => `${value} MHz`,
  percent: (value) => `${value} %`,
};

/** "memory_total_bytes" -> ["memory total", "bytes"]; without a known unit the second is "". */
function split(name: string): [string, string] {
  const words = name.split("_");
  const unit = words.length > 1 && (words.at(-1) ?? "") in UNITS ? (words.pop() ?? "") : "";
  return [words.join(" "), unit];
}

/** "memory_total_bytes" -> "Memory total". The unit is in the value. */
export function readable(name: string): string {
  const [words] = split(name);
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A value with its unit; lists of records only say how many they hold, what is unknown is left out. */
export function factText(name: string, value: unknown): string {
  if (value === null || value === undefined) return format.NOTHING;
  if (typeof value === "number") {
    const [, unit] = split(name);
    return UNITS[unit]?.(value) ?? String(value);
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) {
    if (value.some((item) => typeof item === "object")) return `${value.length} records`;
    return value.map((item) => factText("", item)).join(", ");
  }
  if (typeof value === "object")
    return factRows(value)
      .map(([key, text]) => `${key.toLowerCase()} ${text}`)
      .join(", ");
  return String(value);
}

/** Name and value of every fact that is known. */
export function factRows(facts: object): [string, string][] {
  return Object.entries(facts)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]): [string, string] => [readable(name), factText(name, value)])
    .filter(([, text]) => text !== "");
}
