/** The steps of a run that the server has stored. */

import { useEffect, useState } from "preact/hooks";
import { get, type Problem } from "../../api/client";
import type { Step } from "../../api/types";
import { asProblem } from "../../data";
import { mergeSteps } from "../../series";

export interface StoredSteps {
  readonly steps: readonly Step[];
  /** False until everything has arrived, or it turned out that it will not. */
  readonly complete: boolean;
  readonly problem: Problem | null;
}

/** Page by page from the first. */
export function useStoredSteps(path: string | null): StoredSteps {
  const [state, setState] = useState<StoredSteps>({ steps: [], complete: false, problem: null });
  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    const load = async () => {
      let steps: Step[] = [];
      for (;;) {
        const after = steps.at(-1)?.step ?? -1;
        const page = await get<{ items: Step[] }>(`${path}/steps?after=${after}`, abort.signal);
        steps = mergeSteps(steps, page.items);
        const complete = page.items.length === 0;
        setState({ steps, complete, problem: null });
        if (complete) return;
      }
    };
    load().catch((error: unknown) => {
      if (!abort.signal.aborted) setState((old) => ({ ...old, complete: true, problem: asProblem(error) }));
    });
    return () => abort.abort();
  }, [path]);
  return state;
}
