import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { inTurn } from "../turns";

/** Draws its children in a task of its own, in the order of the page: for what stands below what a person came for. */
export function Later({ children }: { readonly children: ComponentChildren }) {
  const [due, setDue] = useState(false);
  useEffect(() => inTurn(() => setDue(true)), []);
  return due ? <>{children}</> : null;
}
