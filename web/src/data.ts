/** What the service says, as hooks: fetched once however many ask, shown at once when a person comes back, renewed. */

import { InfiniteQueryObserver, QueryClient, QueryObserver } from "@tanstack/query-core";
import { useEffect, useMemo, useState } from "preact/hooks";
import { get, type Page, Problem } from "./api/client";
import { tooOften } from "./api/patience";
import { keep, kept } from "./router";

const KEPT_MS = 10 * 60_000;
/** How often a list is renewed whose changes are told at once (`useChanges`). */
export const SELDOM_MS = 30_000;

/** Renews what is shown when the person comes back to the tab; a failed request is tried again by the next renewal, and
 * one that came too often when the service says. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (_count, error) => tooOften(error) !== null,
      retryDelay: (_count, error) => 1000 * (tooOften(error) ?? 0),
      gcTime: KEPT_MS,
      staleTime: 1000,
      networkMode: "always",
    },
  },
});
queries.mount();

export interface Resource<T> {
  readonly data: T | null;
  readonly problem: Problem | null;
  /** Seconds for which the service wants to hear nothing more; null while it answers. */
  readonly waits: number | null;
  readonly reload: () => void;
}

/** What went wrong, as a problem to show; a programming error still has a text. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem("Unexpected error", error instanceof Error ? error.message : String(error), 0, null, false);
}

/**
 * GETs `path`, again every `everyMs` while the page is visible and on `reload`. The last good data stays while a reload
 * fails, next to the problem. `null` as path loads nothing.
 */
export function useResource<T>(path: string | null, everyMs = 0): Resource<T> {
  const observer = useMemo(
    () =>
      new QueryObserver<T, unknown>(queries, {
        queryKey: [path],
        queryFn: ({ signal }) => get<T>(path ?? "", signal),
        enabled: path !== null,
        refetchInterval: everyMs || false,
      }),
    [path, everyMs],
  );
  const result = useObserved(observer);
  return toldBy(result, result.data ?? null, () => void observer.refetch());
}

interface Answered {
  readonly error: unknown;
  readonly failureReason: unknown;
  readonly isFetching: boolean;
}

function toldBy<T>({ error, failureReason, isFetching }: Answered, data: T | null, reload: () => void): Resource<T> {
  return {
    data,
    problem: error === null ? null : asProblem(error),
    waits: isFetching ? tooOften(failureReason) : null,
    reload,
  };
}

export interface List<T> {
  readonly of: Resource<readonly T[]>;
  /** Asks for one page more; null when everything is there. */
  readonly more: (() => void) | null;
}

const PAGE = 100;

/** A paginated list from its start, as many pages as were asked for, renewed every `everyMs`. Coming back to the view
 * finds as many pages as were there. */
export function useList<T>(path: string | null, everyMs: number, page = PAGE): List<T> {
  const name = `pages ${path} ${page}`;
  const observer = useMemo(
    () =>
      new InfiniteQueryObserver<Page<T>, unknown, readonly T[], readonly [string | null, number, "list"], string>(
        queries,
        {
          queryKey: [path, page, "list"],
          queryFn: ({ pageParam, signal }) => get<Page<T>>(paged(path ?? "", page, pageParam), signal),
          initialPageParam: "",
          getNextPageParam: (last) => last.next_cursor,
          select: ({ pages }) => pages.flatMap(({ items }) => items),
          enabled: path !== null,
          refetchInterval: everyMs || false,
        },
      ),
    [path, everyMs, page],
  );
  const result = useObserved(observer);
  const count = Math.ceil((result.data?.length ?? 0) / page);
  const wanted = kept(name, 1);
  useEffect(() => {
    if (result.hasNextPage && !result.isFetching && count > 0 && count < wanted) void observer.fetchNextPage();
  }, [observer, result.hasNextPage, result.isFetching, count, wanted]);
  const more = () => {
    keep(name, count + 1);
    void observer.fetchNextPage();
  };
  return {
    of: toldBy(result, result.data ?? null, () => void observer.refetch()),
    more: result.hasNextPage ? more : null,
  };
}

function paged(path: string, limit: number, cursor: string): string {
  return `${path}${path.includes("?") ? "&" : "?"}limit=${limit}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`;
}

interface Observed<R> {
  getCurrentResult(): R;
  subscribe(listener: () => void): () => void;
}

function useObserved<R>(observer: Observed<R>): R {
  const [, turn] = useState(0);
  useEffect(() => observer.subscribe(() => turn((value) => value + 1)), [observer]);
  return observer.getCurrentResult();
}
