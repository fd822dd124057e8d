import { expect, test } from "vitest";
import { curvesOf, inputsFirst, numberText, paint, pixelsOf, seriesOf, showingsOf, textOf } from "./samples";

const tensor = (dtype: string, ...shape: number[]) => ({ name: "x", dtype, shape });

test.each([
  [tensor("f32", 8, 3, 32, 32), "images"],
  [tensor("u8", 8, 32, 24, 3), "images"],
  [tensor("u8", 8, 28, 28), "images"],
  [tensor("f32", 8, 9, 128), "curves"],
  [tensor("f32", 8, 128, 3), "curves"],
  [tensor("f32", 8, 100), "curves"],
  [tensor("u8", 8, 100), "text"],
  [tensor("i64", 8, 100), "numbers"],
  [tensor("i64", 8), "numbers"],
  [tensor("f32", 8, 4), "numbers"],
  [tensor("f32", 8, 16, 32, 32), "numbers"],
  [tensor("f32", 8, 1, 1, 1), "numbers"],
  [tensor("f32", 8, 3, 0, 9), "numbers"],
])("%j is shown as %s", (given, first) => {
  expect(showingsOf(given)[0]).toBe(first);
  expect(new Set(showingsOf(given)).size).toBe(showingsOf(given).length);
  expect(showingsOf(given)).toContain("numbers");
});

const corner = (painted: Uint8ClampedArray, at: number) => [...painted.slice(4 * at, 4 * at + 4)];

test("channels first and channels last paint the same picture", () => {
  const first = pixelsOf([1, 3, 4, 5]);
  const last = pixelsOf([1, 4, 5, 3]);
  if (!first || !last) throw new Error("no pictures");
  const chw = Array.from({ length: 60 }, (_, at) => at);
  const hwc = Array.from({ length: 60 }, (_, at) => (at % 3) * 20 + Math.floor(at / 3));
  expect(first).toMatchObject({ width: 5, height: 4 });
  expect(paint(hwc, last)).toEqual(paint(chw, first));
  expect(corner(paint(chw, first), 0)).toEqual([0, 86, 173, 255]);
  expect(corner(paint(chw, first), 19)).toEqual([82, 169, 255, 255]);
});

test("one value is grey, what is not finite is seen through, what is missing as well", () => {
  const pixels = pixelsOf([1, 1, 4, 4]);
  if (!pixels) throw new Error("no picture");
  expect(corner(paint(Array<number>(16).fill(7), pixels), 3)).toEqual([127, 127, 127, 255]);
  const painted = paint([null, 0, 10], pixels);
  expect(corner(painted, 0)[3]).toBe(0);
  expect(corner(painted, 1)).toEqual([0, 0, 0, 255]);
  expect(corner(painted, 2)).toEqual([255, 255, 255, 255]);
  expect(corner(painted, 3)[3]).toBe(0);
});

test("a picture is bounded", () => {
  expect(pixelsOf([1, 3, 4000, 8])).toBeNull();
  expect(pixelsOf([1, 3, 1, 8])).toBeNull();
});

test("time is the longer dimension", () => {
  const byRow = curvesOf([1, 2, 8]);
  const byColumn = curvesOf([1, 8, 2]);
  if (!byRow || !byColumn) throw new Error("no curves");
  const values = Array.from({ length: 16 }, (_, at) => at);
  expect(seriesOf(values, byRow, 9)).toEqual([values.slice(0, 8), values.slice(8)]);
  expect(seriesOf(values, byColumn, 1)).toEqual([[0, 2, 4, 6, 8, 10, 12, 14]]);
  expect(seriesOf([1], byRow, 9)[1]).toEqual(Array(8).fill(null));
  expect(curvesOf([1, 0, 9])).toBeNull();
});

test("bytes are text to their first NUL; hostile ones stay text", () => {
  expect(textOf([72, 105, 0, 65])).toBe("Hi");
  expect(textOf([0xff, 27, 60, 98, 62])).toBe("\ufffd·<b>");
});

test("numbers are short", () => {
  expect(numberText(0.123456)).toBe("0.1235");
  expect(numberText(-3)).toBe("-3");
  expect(numberText(null)).toBe("not finite");
});

test("labels come last", () => {
  const tensors = ["labels", "b", "a"].map((name) => ({ name, dtype: "f32", shape: [1] }));
  expect(inputsFirst(tensors).map(({ name }) => name)).toEqual(["b", "a", "labels"]);
});
