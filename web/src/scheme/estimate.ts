/** The estimate of a recipe, asked for as it changes: the last answer stays until the next one is there. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, type Problem } from "../api/client";
import { patiently } from "../api/patience";
import type { Estimate } from "../api/types";
import { asProblem } from "../data";

export interface Estimated {
  /** What was told last, and of which text. */
  readonly estimate: Estimate | null;
  readonly of: string | null;
  /** Why the present text has no estimate. */
  readonly problem: Problem | null;
  readonly pending: boolean;
  /** Milliseconds that the last answer took. */
  readonly took: number | null;
  /** Seconds for which the service wants to hear nothing more; null while it takes questions. */
  readonly waits: number | null;
}

const PAUSE_MS = 150;
const QUIET_MS = 600;

export function useEstimate(modelId: string, recipe: string | null, target: string): Estimated {
  const [known, setKnown] = useState<Omit<Estimated, "pending" | "waits"> & { readonly answered: string | null }>({
    estimate: null,
    of: null,
    problem: null,
    took: null,
    answered: null,
  });
  const [waits, setWaits] = useState<number | null>(null);
  const question = recipe === null ? null : `${target} ${recipe}`;
  useEffect(() => {
    if (recipe === null) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const began = performance.now();
      const told = () => ({ answered: question, took: performance.now() - began });
      const asked = () => ask<Estimate>(`/models/${modelId}/estimate`, { recipe, target }, abort.signal);
      patiently(asked, setWaits, abort.signal).then(
        (estimate) => setKnown({ estimate, of: recipe, problem: null, ...told() }),
        (error: unknown) => {
          if (!abort.signal.aborted) setKnown((old) => ({ ...old, problem: asProblem(error), ...told() }));
        },
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [modelId, recipe, target, question]);
  const pending = question !== null && known.answered !== question;
  return { ...known, problem: pending ? null : known.problem, pending, waits: pending ? waits : null };
}

/** Asks for estimates of recipes that a person may choose next, one after the other, while nobody waits for another: the
 *  service has them at hand then. */
export function useAhead(modelId: string, recipes: () => Iterable<string>, target: string, quiet: boolean): void {
  const latest = useRef(recipes);
  latest.current = recipes;
  const known = useRef(new Set<string>());
  useEffect(() => {
    if (!quiet) return;
    const abort = new AbortController();
    const ahead = async () => {
      for (const recipe of latest.current()) {
        const question = `${target} ${recipe}`;
        if (known.current.has(question)) continue;
        const asked = () => ask<Estimate>(`/models/${modelId}/estimate`, { recipe, target }, abort.signal);
        await patiently(asked, () => undefined, abort.signal).catch(() => null);
        if (abort.signal.aborted) return;
        known.current.add(question);
      }
    };
    const timer = setTimeout(() => void ahead(), QUIET_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [modelId, target, quiet]);
}

/** The parts that sum to the predicted peak, in the order in which they are stacked. */
export const PARTS = [
  { key: "param_bytes", name: "parameters" },
  { key: "state_bytes", name: "optimizer state" },
  { key: "const_bytes", name: "constants" },
  { key: "input_bytes", name: "inputs" },
  { key: "arena_bytes", name: "activations and gradients" },
  { key: "runtime_bytes", name: "runtime" },
] as const;
