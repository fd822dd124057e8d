/** What a device says about itself, in words: names carry their unit, so the value can be written with it. */

import * as format from "./format";

/** "memory_total_bytes" -> "Memory total". The unit is in the value. */
export function readable(name: string): string {
  const words = name.replace(/_(bytes|ms|celsius|mhz|percent)$/, "").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function factText(name: string, value: unknown): string {
  if (value === null || value === undefined) return format.NOTHING;
  if (typeof value === "number") {
    if (name.endsWith("_bytes")) return format.bytes(value);
    if (name.endsWith("_ms")) return format.milliseconds(value);
    if (name.endsWith("_celsius")) return `${value} °C`;
    if (name.endsWith("_mhz")) return `${value} MHz`;
    if (name.endsWith("_percent")) return `${value} %`;
    return String(value);
  }
  if (Array.isArray(value)) return value.map((item) => factText("", item)).join(", ");
  if (typeof value === "object")
    return Object.entries(value)
      .map(([key, item]) => `${readable(key)} ${factText(key, item)}`)
      .join(", ");
  return typeof value === "boolean" ? (value ? "yes" : "no") : String(value);
}
