/** Several requests of one form, one after the other, with what became of each. */

import { useState } from "preact/hooks";
import { patiently } from "./api/patience";

export interface Posted<A, T> {
  readonly of: A;
  readonly made?: T;
  readonly error?: unknown;
}

export interface Posts<A, T> {
  readonly outcomes: readonly Posted<A, T>[];
  readonly busy: boolean;
  /** Seconds for which the service wants no more; null while it takes them. */
  readonly waits: number | null;
  readonly go: (each: Iterable<A>, act: (one: A) => Promise<T>) => Promise<readonly Posted<A, T>[]>;
}

export function usePosts<A, T>(): Posts<A, T> {
  const [outcomes, setOutcomes] = useState<readonly Posted<A, T>[]>([]);
  const [busy, setBusy] = useState(false);
  const [waits, setWaits] = useState<number | null>(null);
  const go = async (each: Iterable<A>, act: (one: A) => Promise<T>) => {
    setBusy(true);
    const found: Posted<A, T>[] = [];
    for (const one of each) {
      try {
        found.push({ of: one, made: await patiently(() => act(one), setWaits) });
      } catch (error) {
        found.push({ of: one, error });
      }
      setOutcomes([...found]);
    }
    setBusy(false);
    return found;
  };
  return { outcomes, busy, waits, go };
}
