/** The compared runs and the steps of each, by a few requests at a time. */

import { useEffect, useState } from "preact/hooks";
import { get, type Problem } from "../../api/client";
import { patiently } from "../../api/patience";
import type { Run, Step } from "../../api/types";
import { asProblem } from "../../data";
import { useChanges } from "../../hooks";
import { mergeSteps } from "../../series";
import { ownTask } from "../../turns";

const AT_ONCE = 4;
/** So many pages of steps are read of each run; the report says where that is not all. */
const MOST_PAGES = 5;

export interface Loaded<T> {
  readonly found: ReadonlyMap<string, T>;
  /** Runs that are not there any more. */
  readonly gone: readonly string[];
  readonly problem: Problem | null;
  readonly complete: boolean;
}

const NONE = { found: new Map<string, never>(), gone: [], problem: null, complete: false };

/** `load` of each id, some at a time; again when `turn` changes, while what was there stays. */
function useEach<T>(ids: readonly string[], load: (id: string, signal: AbortSignal) => Promise<T>, turn: number) {
  const [state, setState] = useState<Loaded<T>>(NONE);
  const wanted = ids.join(",");
  useEffect(() => {
    const abort = new AbortController();
    const waiting = wanted.split(",").filter(Boolean);
    const found = new Map<string, T>();
    const gone: string[] = [];
    let problem: Problem | null = null;
    const work = async () => {
      for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
        await ownTask();
        try {
          found.set(
            id,
            await patiently(
              () => load(id, abort.signal),
              () => undefined,
              abort.signal,
            ),
          );
        } catch (error) {
          if (abort.signal.aborted) return;
          const met = asProblem(error);
          if (met.status === 404) gone.push(id);
          else problem = met;
        }
      }
    };
    void Promise.all(Array.from({ length: AT_ONCE }, work)).then(() => {
      if (!abort.signal.aborted) setState({ found, gone, problem, complete: true });
    });
    return () => abort.abort();
  }, [wanted, turn]);
  return state;
}

const loadRun = (id: string, signal: AbortSignal) => get<Run>(`/runs/${id}`, signal);

export function useRuns(ids: readonly string[]): Loaded<Run> & { readonly reload: () => void } {
  const [turn, setTurn] = useState(0);
  const reload = () => setTurn((value) => value + 1);
  useChanges("runs", (changes) => {
    const ours =
      changes?.changed.some(({ id }) => ids.includes(id)) || changes?.advanced.some((id) => ids.includes(id));
    if (changes === null || changes.more || ours) reload();
  });
  return { ...useEach(ids, loadRun, turn), reload };
}

export interface Curve {
  readonly steps: readonly Step[];
  readonly whole: boolean;
}

async function loadCurve(id: string, signal: AbortSignal): Promise<Curve> {
  let steps: Step[] = [];
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const after = steps.at(-1)?.step ?? -1;
    const { items } = await get<{ items: Step[] }>(`/runs/${id}/steps?after=${after}`, signal);
    if (items.length === 0) return { steps, whole: true };
    steps = mergeSteps(steps, items);
  }
  return { steps, whole: false };
}

/** Loss curves; read again when one of the runs reaches another state (`turn`). */
export function useCurves(ids: readonly string[], turn: number): Loaded<Curve> {
  return useEach(ids, loadCurve, turn);
}
