/** What a tensor's samples can be shown as, and their pixels. Pure; `shape` is a whole tensor's, samples first. */

import type { DatasetTensor } from "../../api/types";

export type Showing = "images" | "curves" | "text" | "numbers";
export type Values = readonly (number | null)[];

/** How the pixels of an image lie: `[height, width]` and the steps from one pixel, row and channel to the next. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly channels: 1 | 3;
  readonly channelStep: number;
  readonly rowStep: number;
  readonly columnStep: number;
}

const LEAST_SIDE = 4;
const MOST_SIDE = 2048;
const LEAST_CURVE = 8;

/** [8, 3, 32, 32] and [8, 32, 32, 3] are colour, [8, 1, 28, 28], [8, 28, 28, 1] and [8, 28, 28] grey; else null. */
export function pixelsOf(shape: readonly number[]): Pixels | null {
  const [a = 0, b = 0, c = 0] = shape.slice(1);
  if (shape.length === 3) return pixels(b, a, 1, { channelStep: 0, rowStep: b, columnStep: 1 });
  if (shape.length !== 4) return null;
  if (a === 1 || a === 3) return pixels(c, b, a, { channelStep: b * c, rowStep: c, columnStep: 1 });
  if (c === 1 || c === 3) return pixels(b, a, c, { channelStep: 1, rowStep: b * c, columnStep: c });
  return null;
}

type Steps = Pick<Pixels, "channelStep" | "rowStep" | "columnStep">;

function pixels(width: number, height: number, channels: 1 | 3, steps: Steps): Pixels | null {
  const fits = Math.min(width, height) >= LEAST_SIDE && Math.max(width, height) <= MOST_SIDE;
  return fits ? { width, height, channels, ...steps } : null;
}

/** RGBA bytes of one sample, its least value black and its largest white. What is not finite or missing is see-through. */
export function paint(values: Values, { width, height, channels, ...steps }: Pixels): Uint8ClampedArray<ArrayBuffer> {
  let least = Infinity;
  let most = -Infinity;
  for (const value of values) {
    if (value === null) continue;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  const scale = most > least ? 255 / (most - least) : 0;
  const painted = new Uint8ClampedArray(4 * width * height);
  for (let y = 0, at = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1, at += 4) {
      let seen = true;
      for (let channel = 0; channel < 3; channel += 1) {
        const from = (channels === 1 ? 0 : channel) * steps.channelStep + y * steps.rowStep + x * steps.columnStep;
        const value = values[from] ?? null;
        if (value === null) seen = false;
        else painted[at + channel] = scale === 0 ? 127 : (value - least) * scale;
      }
      painted[at + 3] = seen ? 255 : 0;
    }
  }
  return painted;
}

/** How the series of a sample lie: `count` of them with `length` values each. */
export interface Curves {
  readonly count: number;
  readonly length: number;
  readonly seriesStep: number;
  readonly valueStep: number;
}

/** [N, T] is one series; of [N, A, B], the longer of both is time. */
export function curvesOf(shape: readonly number[]): Curves | null {
  const [a = 0, b = 0] = shape.slice(1);
  if (shape.length === 2 && a >= LEAST_CURVE) return { count: 1, length: a, seriesStep: 0, valueStep: 1 };
  if (shape.length !== 3 || Math.max(a, b) < LEAST_CURVE || Math.min(a, b) === 0) return null;
  return a > b
    ? { count: b, length: a, seriesStep: 1, valueStep: b }
    : { count: a, length: b, seriesStep: b, valueStep: 1 };
}

export function seriesOf(values: Values, { count, length, seriesStep, valueStep }: Curves, most: number): Values[] {
  return Array.from({ length: Math.min(count, most) }, (_, series) =>
    Array.from({ length }, (_, at) => values[series * seriesStep + at * valueStep] ?? null),
  );
}

const WHOLE = /^(bool|[iu]\d+)$/;
/** Square enough for a picture: sensors give a few long series. */
const SQUARE = 4;

/** What the tensor can be shown as, the likeliest first. */
export function showingsOf({ shape, dtype }: DatasetTensor): readonly Showing[] {
  const picture = pixelsOf(shape);
  const found: Showing[] = [];
  const bytes = dtype === "u8" && shape.length === 2 && (shape[1] ?? 0) > 1;
  const ids = WHOLE.test(dtype) && shape.length <= 2;
  const square = picture && (shape.length === 4 || Math.max(...shape.slice(1)) <= SQUARE * Math.min(...shape.slice(1)));
  if (picture && square) found.push("images");
  if (bytes) found.push("text");
  if (ids) found.push("numbers");
  if (curvesOf(shape)) found.push("curves");
  if (picture && !square) found.push("images");
  if (!found.includes("numbers")) found.push("numbers");
  return found;
}

/** Bytes as UTF-8, to the first NUL; what is no text becomes a replacement character, what is no letter a middle dot. */
export function textOf(values: Values): string {
  const end = values.indexOf(0);
  const bytes = Uint8Array.from(end < 0 ? values : values.slice(0, end), (value) => value ?? 0);

  return new TextDecoder().decode(bytes).replace(/[\u0001-\u0008\u000b-\u001f\u007f]/g, "·");
}

/** The tensors of a dataset, its labels last. */
export function inputsFirst(tensors: readonly DatasetTensor[]): readonly DatasetTensor[] {
  const labels = ({ name }: DatasetTensor) => Number(name === "labels");
  return tensors.toSorted((a, b) => labels(a) - labels(b));
}

/** A number of a sample in few characters. */
export function numberText(value: number | null): string {
  if (value === null) return "not finite";
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}
