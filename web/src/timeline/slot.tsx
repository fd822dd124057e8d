/** How a value of the memory plan is named and coloured. */

import type { Slot } from "../api/types";
import * as format from "../format";
import { makerOf, nameOf, type Plan } from "./layout";

export const KINDS = ["activation", "gradient", "workspace", "output"];

export const kindClass = (slot: Slot) => `slot-${KINDS.includes(slot.kind) ? slot.kind : "other"}`;

export function SlotText({ slot, program }: { readonly slot: Slot; readonly program: Plan }) {
  return (
    <>
      <strong>{nameOf(slot, program)}</strong> · {format.bytes(slot.nbytes)} ({format.grouped(slot.nbytes)} bytes) ·{" "}
      {slot.kind} of {makerOf(slot, program)} · offset {format.grouped(slot.offset)} · nodes {slot.first}–{slot.last}
    </>
  );
}
