/** Work that need not be done at once: a piece in each task, so that the page draws and answers between them. */

import { useEffect, useState } from "preact/hooks";

const waiting: (() => void)[] = [];
let timer = 0;

function next(): void {
  timer = 0;
  const work = waiting.shift();
  if (waiting.length > 0) timer = setTimeout(next);
  work?.();
}

/** Does it in a task of its own, after what was asked for before; what it gives takes that back. */
export function inTurn(work: () => void): () => void {
  waiting.push(work);
  if (timer === 0) timer = setTimeout(next);
  return () => {
    const at = waiting.indexOf(work);
    if (at !== -1) waiting.splice(at, 1);
  };
}

/** Rows that each task adds. */
const MORE = 8;

/** How many of so many rows to draw by now: a few at once, and more in each further task. */
export function useGradually(count: number): number {
  const [drawn, setDrawn] = useState(MORE);
  useEffect(() => (drawn < count ? inTurn(() => setDrawn(drawn + MORE)) : undefined), [drawn, count]);
  return Math.min(drawn, count);
}
