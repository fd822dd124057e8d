/** Any part of a long list, page by page as it is seen. */

import { QueriesObserver } from "@tanstack/query-core";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, type Problem } from "../../api/client";
import type { Device, DevicePage } from "../../api/types";
import { asProblem, queries } from "../../data";

const PAGE = 50;
/** What is seen only while scrolling past is not asked for. */
const SETTLED_MS = 60;
const RENEWED_MS = 15_000;

export interface Rows {
  /** Null until something has come. */
  readonly total: number | null;
  readonly at: (index: number) => Device | undefined;
  /** Whether other rows than these were asked for, and have not come yet. */
  readonly late: boolean;
  readonly problem: Problem | null;
  readonly reload: () => void;
}

const pagePath = (path: string, page: number) => `${path}&limit=${PAGE}&offset=${page * PAGE}`;
const cached = (path: string, page: number) => queries.getQueryData<DevicePage>([pagePath(path, page)]);

/** The list of `path`, of which the rows from `first` to `last` are seen. While another list comes, the last one stays. */
export function useRows(path: string, first: number, last: number): Rows {
  const [, turn] = useState(0);
  const observer = useMemo(() => new QueriesObserver(queries, []), []);
  const results = useRef<ReturnType<typeof observer.getCurrentResult>>([]);
  const shown = useRef(path);
  useEffect(
    () =>
      observer.subscribe((found) => {
        results.current = found;
        turn((value) => value + 1);
      }),
    [observer],
  );
  const [from, to] = [Math.floor(first / PAGE), Math.floor(Math.max(first, last) / PAGE)];
  useEffect(() => {
    const wanted = Array.from({ length: to - from + 1 }, (_, place) => pagePath(path, from + place));
    const ask = () =>
      observer.setQueries(
        wanted.map((page) => ({
          queryKey: [page],
          queryFn: ({ signal }: { signal: AbortSignal }) => get<DevicePage>(page, signal),
          refetchInterval: RENEWED_MS,
        })),
      );
    const timer = setTimeout(ask, wanted.every((page) => queries.getQueryData([page])) ? 0 : SETTLED_MS);
    return () => clearTimeout(timer);
  }, [observer, path, from, to]);
  useEffect(() => () => observer.destroy(), [observer]);

  const here = cached(path, from);
  if (here) shown.current = path;
  const list = shown.current;
  const total = (here ?? cached(list, from) ?? cached(list, 0))?.total ?? null;
  const failed = results.current.find((result) => result.error !== null);
  return {
    total,
    at: (index) => cached(list, Math.floor(index / PAGE))?.items[index % PAGE],
    late: list !== path,
    problem: failed ? asProblem(failed.error) : null,
    reload: () => results.current.forEach((result) => void result.refetch()),
  };
}
