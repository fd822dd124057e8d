import { expect, test } from "vitest";
import { Problem, saidOf } from "./problem";

const refused = (detail: string, errors: Problem["errors"] = []) =>
  new Problem("Invalid", detail, 422, 3, false, errors);

test("what the service says of a field is found in its errors, or in its sentence", () => {
  const listed = refused("body.steps: too small.", [{ where: "body.steps", message: "too small" }]);
  expect(saidOf(listed, "steps")).toBe("too small");
  expect(saidOf(listed, "step")).toBeNull();
  const said = refused("body.on: no device is chosen by 'x: y'.");
  expect(saidOf(said, "device_ids", "on")).toBe("no device is chosen by 'x: y'.");
  expect(saidOf(said, "name")).toBeNull();
  expect(saidOf(refused("body.retries.crashed: too many."), "retries")).toBe("too many.");
  expect(saidOf(refused("Build x is failed; request it again."), "on")).toBeNull();
  expect(saidOf(null, "on")).toBeNull();
});
