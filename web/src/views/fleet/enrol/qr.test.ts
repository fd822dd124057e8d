import { expect, test } from "vitest";
import { codeOf } from "./qr";

test("a code has three finders and quiet corners", async () => {
  const { size, path } = await codeOf("pock-agent enroll https://pock.example.org TOKEN");
  expect((size - 17) % 4).toBe(0);
  // The upper edges of the finders: seven dark modules in the first row, at both ends, and in the last row at its start.
  expect(path).toContain("M0 0h7v1h-7z");
  expect(path).toContain(`M${size - 7} 0h7v1h-7z`);
  expect(path).toContain(`M0 ${size - 1}h7v1h-7z`);
});

test("another text is another code", async () => {
  expect((await codeOf("one")).path).not.toBe((await codeOf("two")).path);
});
