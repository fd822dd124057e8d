import { expect, test } from "vitest";
import type { CampaignCell } from "../../api/types";
import { whyNotNow } from "../../components/deed";
import { countsText, DEEDS, endedCount, othersText, shortVersion } from "./parts";

const counts = { total: 9, pending: 1, running: 2, succeeded: 3, failed: 0, cancelled: 1, skipped: 2 };

test("cells in words, without what there is none of", () => {
  expect(countsText(counts)).toBe("3 succeeded, 1 cancelled, 2 skipped, 2 running, 1 to come");
  expect(endedCount(counts)).toBe(6);
  const others = ["succeeded", "failed", "succeeded"].map((state) => ({ state }) as CampaignCell);
  expect(othersText(others)).toBe("3 more: 2 succeeded, 1 failed");
});

test("the first version is not told", () => {
  expect([shortVersion("pets:v1"), shortVersion("pets:v10"), shortVersion("v1")]).toEqual(["pets", "pets:v10", "v1"]);
});

test("a campaign that is over can be told nothing, and why is a sentence", () => {
  for (const deed of DEEDS) {
    expect(deed.from.every((state) => whyNotNow(deed, state) === null)).toBe(true);
    expect(whyNotNow(deed, "succeeded")).toContain("It is succeeded; only one that is");
  }
});
