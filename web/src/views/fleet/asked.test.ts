import { expect, test } from "vitest";
import { askedOf, comparable, filterQuery, listPath, totalsPath } from "./asked";

const of = (text: string) => askedOf(new URLSearchParams(text));

test("an address that asks nothing lists all but the revoked by name", () => {
  expect(listPath(of(""))).toBe("/devices?on=state%21%3Drevoked&sort=name&facts=false");
});

test("what the address asks is a selector in which values mean themselves", () => {
  const query = filterQuery(of('q= bench &state=busy&pool=a"*\\,b&agent=0.2&target=host'));
  expect(query.get("on")).toBe('state=busy,target="host",pool="a\\"*\\\\,b",agent=0.2');
  expect(query.get("text")).toBe("bench");
});

test("being slowed down and resting are asked for beside the state", () => {
  expect(filterQuery(of("state=throttled")).toString()).toBe("on=state%21%3Drevoked&throttled=true");
});

test("the counts of states do not depend on the state", () => {
  expect(totalsPath(of("state=busy&pool=lab"))).toBe(totalsPath(of("pool=lab")));
});

test("nonsense in the address asks for nothing", () => {
  expect(of("state=dead&sort=size&agent=x")).toEqual(of(""));
});

test("versions are compared by their numbers", () => {
  expect(["0.2.1rc3", "1.0", "dev", "12345678"].map(comparable)).toEqual(["0.2.1", "1.0", null, null]);
});
