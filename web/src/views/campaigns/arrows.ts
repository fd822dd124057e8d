/** The marks of a grid are one tab stop: arrow keys move among them. */

import { useEffect, useRef } from "preact/hooks";

const MARKS = "a.cell-mark";

/** For the element around the table: `ref` and `onKeyDown`, `onFocusIn` of it. */
export function useArrows() {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const marks = ref.current?.querySelectorAll<HTMLElement>(MARKS) ?? [];
    if (marks[0] && ![...marks].some(({ tabIndex }) => tabIndex === 0)) marks[0].tabIndex = 0;
  });
  return {
    ref,
    onFocusIn: (event: FocusEvent) => {
      const mark = event.target instanceof Element ? event.target.closest<HTMLElement>(MARKS) : null;
      if (!mark) return;
      for (const other of ref.current?.querySelectorAll<HTMLElement>(`${MARKS}[tabindex="0"]`) ?? [])
        other.tabIndex = -1;
      mark.tabIndex = 0;
    },
    onKeyDown: (event: KeyboardEvent) => {
      const mark = event.target instanceof Element ? event.target.closest<HTMLElement>(MARKS) : null;
      const next = mark && !event.ctrlKey && !event.metaKey && !event.altKey && neighbour(mark, event.key);
      if (!next) return;
      event.preventDefault();
      next.focus();
    },
  };
}

function neighbour(mark: HTMLElement, key: string): HTMLElement | undefined {
  const row = mark.closest("tr");
  const mine = marksOf(row);
  const place = mine.indexOf(mark);
  if (key === "ArrowRight") return mine[place + 1];
  if (key === "ArrowLeft") return mine[place - 1];
  if (key === "Home") return mine[0];
  if (key === "End") return mine.at(-1);
  if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
  let other = row;
  do {
    other = (key === "ArrowUp" ? other?.previousElementSibling : other?.nextElementSibling) as typeof row;
  } while (other && marksOf(other).length === 0);
  const there = marksOf(other);
  return there[Math.min(place, there.length - 1)];
}

function marksOf(row: Element | null | undefined): HTMLElement[] {
  return [...(row?.querySelectorAll<HTMLElement>(MARKS) ?? [])];
}
