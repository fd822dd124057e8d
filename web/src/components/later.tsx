/** What is drawn a piece in a task, so that the page answers between them. */

import type { ComponentChild, ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { inTurn } from "../turns";

/** Draws its children in a task of its own, in the order of the page: for what stands below what a person came for. */
export function Later({ children }: { readonly children: ComponentChildren }) {
  const [due, setDue] = useState(false);
  useEffect(() => inTurn(() => setDue(true)), []);
  return due ? <>{children}</> : null;
}

/** Items that each task adds. */
const MORE = 3;

interface ByAndByProps<T> {
  readonly of: readonly T[];
  /** Draws one: a component that keeps what it drew, as it is asked again whenever others are added. */
  readonly children: (item: T, index: number) => ComponentChild;
}

/** Draws many of a kind, such as the rows of a table, a few in each task, all before what stands `Later` below. */
export function ByAndBy<T>({ of, children }: ByAndByProps<T>) {
  const [drawn, setDrawn] = useState(0);
  const count = of.length;
  useEffect(() => {
    const pieces: (() => void)[] = [];
    for (let more = drawn + MORE; more < count + MORE; more += MORE) pieces.push(inTurn(() => setDrawn(more)));
    return () => pieces.forEach((forget) => forget());
  }, [count]);
  return <>{of.slice(0, drawn).map(children)}</>;
}
