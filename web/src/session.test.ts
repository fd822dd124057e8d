import { describe, expect, it } from "vitest";
import { parseKeyFragment } from "./session";

describe("parseKeyFragment", () => {
  it("takes the key and where to go", () => {
    expect(parseKeyFragment("#key=pk_1_a")).toEqual({ key: "pk_1_a", next: "/" });
    expect(parseKeyFragment("#key=pk_1_a&next=/runs/7")).toEqual({ key: "pk_1_a", next: "/runs/7" });
  });

  it("leaves other fragments alone", () => {
    expect(parseKeyFragment("#/fleet")).toBeNull();
    expect(parseKeyFragment("#key=")).toBeNull();
    expect(parseKeyFragment("")).toBeNull();
  });

  it("never leads to another site", () => {
    expect(parseKeyFragment("#key=a&next=https://elsewhere.example")?.next).toBe("/");
  });
});
