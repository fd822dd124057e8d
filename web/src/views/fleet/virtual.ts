/** Which rows of a long list are seen: all have the same height. */

import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualItem,
} from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { keep, kept } from "../../router";

const OVERSCAN = 6;

export interface Virtual {
  readonly frame: { current: HTMLDivElement | null };
  readonly items: readonly VirtualItem[];
  readonly height: number;
  readonly scrollTo: (index: number) => void;
  /** How many rows fit into the frame. */
  readonly fit: number;
}

/** Rows of `row` pixels below a head of `head` pixels that stays in sight. Coming back to the view finds the place to which it was scrolled. */
export function useVirtual(count: number, row: number, head: number): Virtual {
  const frame = useRef<HTMLDivElement>(null);
  const [, turn] = useState(0);
  const virtualizer = useMemo(
    () =>
      new Virtualizer<HTMLDivElement, HTMLDivElement>({
        ...options(count, row, head, frame),
        initialOffset: kept("table", 0),
        onChange: () => undefined,
      }),
    [],
  );
  virtualizer.setOptions({
    ...options(count, row, head, frame),
    onChange: (instance) => {
      keep("table", instance.scrollOffset ?? 0);
      turn((value) => value + 1);
    },
  });
  useLayoutEffect(() => virtualizer._didMount(), [virtualizer]);
  useLayoutEffect(() => virtualizer._willUpdate());
  const wanted = useRef(kept("table", 0));
  useEffect(() => {
    if (count === 0 || wanted.current === 0) return;
    frame.current?.scrollTo({ top: wanted.current });
    wanted.current = 0;
  }, [count]);
  return {
    frame,
    items: virtualizer.getVirtualItems(),
    height: virtualizer.getTotalSize(),
    scrollTo: (index) => virtualizer.scrollToIndex(index),
    fit: Math.max(1, Math.floor(((frame.current?.clientHeight ?? 0) - head) / row)),
  };
}

function options(count: number, row: number, head: number, frame: { current: HTMLDivElement | null }) {
  return {
    count,
    getScrollElement: () => frame.current,
    estimateSize: () => row,
    overscan: OVERSCAN,
    scrollPaddingEnd: head,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
  };
}
