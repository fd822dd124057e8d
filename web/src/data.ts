/** What the service says, as hooks: fetched once however many ask, shown at once when a person comes back, renewed. */

import {
  InfiniteQueryObserver,
  type InfiniteQueryObserverResult,
  QueryClient,
  QueryObserver,
  type QueryObserverResult,
} from "@tanstack/query-core";
import { useEffect, useMemo, useState } from "preact/hooks";
import { get, type Page, Problem } from "./api/client";
import { tooOften } from "./api/patience";
import { keep, kept } from "./router";
import { inTurn } from "./turns";

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
      // All that a `Resource` tells of: when a request begins or ends without news, nothing is drawn again.
      notifyOnChangeProps: ["data", "error", "failureReason"],
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
  return useTold<T, QueryObserverResult<T, unknown>>(observer)[0];
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
          notifyOnChangeProps: ["data", "error", "failureReason", "hasNextPage"],
        },
      ),
    [path, everyMs, page],
  );
  const [of, { hasNextPage }] = useTold<readonly T[], InfiniteQueryObserverResult<readonly T[], unknown>>(observer);
  const count = Math.ceil((of.data?.length ?? 0) / page);
  const wanted = kept(name, 1);
  useEffect(() => {
    if (hasNextPage && count > 0 && count < wanted) void observer.fetchNextPage();
  }, [observer, hasNextPage, count, wanted]);
  const more = useMemo(() => {
    if (!hasNextPage) return null;
    return () => {
      keep(name, count + 1);
      void observer.fetchNextPage();
    };
  }, [observer, name, hasNextPage, count]);
  return { of, more };
}

function paged(path: string, limit: number, cursor: string): string {
  return `${path}${path.includes("?") ? "&" : "?"}limit=${limit}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`;
}

interface Answered<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  readonly failureReason: unknown;
  readonly isFetching: boolean;
}

interface Observed<R> {
  getCurrentResult(): R;
  subscribe(listener: () => void): () => void;
  refetch(): Promise<unknown>;
}

/** What the observer knows, and its own result; the resource is the same object until it tells of something else. */
function useTold<T, R extends Answered<T>>(observer: Observed<R>): [Resource<T>, R] {
  const [, turn] = useState(0);
  useEffect(() => {
    let leave = () => {};
    // The first request goes out then: of several, each has its task.
    const stop = inTurn(() => {
      leave = observer.subscribe(() => turn((value) => value + 1));
    });
    return () => {
      stop();
      leave();
    };
  }, [observer]);
  const result = observer.getCurrentResult();
  const { data = null, error, failureReason, isFetching } = result;
  const waits = isFetching ? tooOften(failureReason) : null;
  const resource = useMemo(
    () => ({
      data,
      problem: error === null ? null : asProblem(error),
      waits,
      reload: () => void observer.refetch(),
    }),
    [observer, data, error, waits],
  );
  return [resource, result];
}
