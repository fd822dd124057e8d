/** Which entries of the audit log are wanted, as the address says it. Pure functions. */

/** Parts of the address, and what the server calls them. */
const NAMES = {
  action: "action",
  kind: "object_kind",
  object: "object_id",
  member: "member_id",
  key: "key_id",
  since: "since",
  until: "until",
} as const;

export type Part = keyof typeof NAMES;
export const PARTS = Object.keys(NAMES) as readonly Part[];

/** The query of the server for what the address asks; "" where it asks for everything. */
export function auditQuery(query: URLSearchParams): string {
  const asked = new URLSearchParams();
  for (const part of PARTS) {
    const value = query.get(part)?.trim();
    if (value) asked.set(NAMES[part], value);
  }
  const text = asked.toString();
  return text ? `?${text}` : "";
}

/** A moment of the address as the field for a local time writes it, to the minute; "" for none, or none that is one. */
export function localField(moment: string | null): string {
  const date = new Date(moment ?? "");
  if (Number.isNaN(date.getTime())) return "";
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day}T${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** What the field for a local time holds, as a moment in UTC; null where it holds none. */
export function momentOf(field: string): string | null {
  const date = new Date(field);
  return field === "" || Number.isNaN(date.getTime()) ? null : date.toISOString().replace(".000Z", "Z");
}

const LONGEST = 160;

/** A value of a changed field, short enough for a line. */
export function valueText(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "nothing");
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

interface Change {
  readonly before?: unknown;
  readonly after?: unknown;
}

/** "viewer → operator"; only the new value of what was not there before, only the old of what is gone. */
export function changeText({ before, after }: Change): string {
  if (before === null || before === undefined) return valueText(after);
  return `${valueText(before)} → ${valueText(after)}`;
}
