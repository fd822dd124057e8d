import { expect, test } from "vitest";
import type { Run } from "../../../api/types";
import { readings } from "./health";

const run = (id: string, health: unknown): Run =>
  ({ id, report: health === null ? null : { health } }) as unknown as Run;

test("runs that told something come oldest first", () => {
  const found = readings([
    run("4", { max_temperature_c: 84.2, throttled: true }),
    run("3", null),
    run("2", { throttled: true }),
    run("1", { max_temperature_c: 51, throttled: false }),
    run("0", { max_temperature_c: "hot" }),
  ]);
  expect(found.map((one) => [one.run.id, one.hottest, one.throttled])).toEqual([
    ["1", 51, false],
    ["2", null, true],
    ["4", 84.2, true],
  ]);
});
