/** Numbers, times and names as people read them. Pure functions; nothing here touches the page. */

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;
export const NOTHING = "–";
/** Between a number and its unit, so that a line never breaks there. */
const GAP = "\u00a0";

/** Three significant digits, never in exponent form for the magnitudes that occur here. */
function significant(value: number): string {
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(digits, 6));
}

/** 1536 -> "1.50 KiB". Binary units, because arenas and pages are powers of two. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  let scaled = value;
  let unit = 0;
  while (Math.abs(scaled) >= 1024 && unit < BYTE_UNITS.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? String(Math.round(scaled)) : significant(scaled)}${GAP}${BYTE_UNITS[unit] ?? "B"}`;
}

/** 1234567 -> "1,234,567", of whole numbers. The browser's own formatter takes long to start. */
export function grouped(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** 2_500_000 -> "2.50 M", for operation counts. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  const steps: [number, string][] = [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ];
  for (const [size, name] of steps) {
    if (Math.abs(value) >= size) return significant(value / (size === 1e4 ? 1e3 : size)) + GAP + name;
  }
  return Number.isInteger(value) ? grouped(value) : significant(value);
}

/** 12.345 -> "12.3 ms", 2345 -> "2.35 s", 0.0483 -> "48.3 µs". */
export function milliseconds(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  if (value >= 1000) return `${significant(value / 1000)}${GAP}s`;
  return value > 0 && value < 0.1 ? `${significant(value * 1000)}${GAP}µs` : `${significant(value)}${GAP}ms`;
}

/** A loss with four significant digits. */
export function loss(value: number | null | undefined): string {
  if (value === null || value === undefined) return NOTHING;
  if (!Number.isFinite(value)) return String(value);
  return value === 0 ? "0" : Math.abs(value) < 1e-3 ? value.toExponential(2) : value.toPrecision(4);
}

/** 0.9312 -> "93.1 %". */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  return `${(value * 100).toFixed(1)}${GAP}%`;
}

/** 0.0123 -> "1.2", a difference of shares in points. */
export function points(value: number): string {
  return (value * 100).toFixed(1);
}

/** 1.0342 -> "1.034", how many times one time is another. */
export function ratio(value: number): string {
  return value.toFixed(3);
}

/** 0.0321 -> "0.032", 3.2e-7 -> "< 0.0001". */
export function probability(value: number): string {
  return value < 1e-4 ? "< 0.0001" : String(Number(value.toPrecision(2)));
}

/** How far `measured` is from `planned`: "+3.2 %". */
export function deviation(measured: number, planned: number): string {
  if (planned === 0) return NOTHING;
  const relative = (measured / planned - 1) * 100;
  return `${relative >= 0 ? "+" : "−"}${Math.abs(relative).toFixed(1)}${GAP}%`;
}

/** "4 s ago", "3 min ago", "2 h ago", "5 days ago". From 10 s on it changes every 5 s only: a table of many is not drawn
 * anew each second. A clock ahead of ours reads as "now". */
export function ago(time: string | null | undefined, now: number): string {
  if (!time) return "never";
  const seconds = Math.floor((now - Date.parse(time)) / 1000);
  if (Number.isNaN(seconds)) return NOTHING;
  if (seconds < 2) return "now";
  if (seconds < 90) return `${seconds < 10 ? seconds : seconds - (seconds % 5)} s ago`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

/** "in 40 s", "in 3 min", "in 2 h", "in 29 days"; "now" once it is past. */
export function until(time: string, now: number): string {
  const seconds = Math.floor((Date.parse(time) - now) / 1000);
  if (Number.isNaN(seconds)) return NOTHING;
  if (seconds < 1) return "now";
  if (seconds < 90) return `in ${seconds} s`;
  if (seconds < 90 * 60) return `in ${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `in ${Math.round(seconds / 3600)} h`;
  return `in ${Math.round(seconds / 86400)} days`;
}

/** Duration between two times, "1 min 05 s"; to `now` while the end is open. */
export function duration(start: string | null | undefined, end: string | null | undefined, now: number): string {
  if (!start) return NOTHING;
  const seconds = Math.max(0, ((end ? Date.parse(end) : now) - Date.parse(start)) / 1000);
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** "2026-11-21 01:49:59 UTC": the server's logs are in UTC. */
export function utc(time: string | null | undefined): string {
  if (!time) return NOTHING;
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? time : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** "2026-11-21 02:49:59", in the person's own time zone. */
export function timestamp(time: string | null | undefined): string {
  if (!time) return NOTHING;
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return time;
  const two = (value: number) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(date.getTime())}`;
}

/** "02:49:59", in the person's own time zone. */
export function clock(milliseconds: number): string {
  const date = new Date(milliseconds);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

/** The first characters of a digest or the last of an id: enough to tell two apart. */
export function shortDigest(digest: string): string {
  return digest.slice(0, 12);
}

/** UUIDv7 begins with the time, so its end is what tells two apart. */
export function shortId(id: string): string {
  return id.slice(-8);
}

/** "[8, 3, 224, 224]" -> "8 × 3 × 224 × 224". */
export function shape(dims: readonly number[]): string {
  return dims.length === 0 ? "scalar" : dims.join(" × ");
}

/** "84 °C". */
export function celsius(degrees: number): string {
  return `${degrees.toFixed(0)}${GAP}°C`;
}
