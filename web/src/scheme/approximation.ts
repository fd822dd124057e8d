/** About what a recipe takes, told at once while the estimate is planned: nearer than the service says it, as the estimate
 *  before shows by how much that is off. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "../api/client";
import { patiently } from "../api/patience";
import { Problem } from "../api/problem";
import type { About, Approximation, Estimate } from "../api/types";
import type { Estimated } from "./estimate";

/** A recipe whose approximation and estimate are both there. */
export interface Both {
  readonly about: About;
  readonly planned: Pick<Estimate, "arena_bytes" | "step_ms">;
}

/** Off by as much as another was: by the same part or the same amount, whichever is less. */
export function nearer(about: About, was: Both | null): About {
  if (was === null) return about;
  const arena = Math.round(shifted(about.arena_bytes, was.about.arena_bytes, was.planned.arena_bytes));
  return {
    ...about,
    arena_bytes: arena,
    predicted_peak_bytes: about.predicted_peak_bytes + arena - about.arena_bytes,
    step_ms: shifted(about.step_ms, was.about.step_ms, was.planned.step_ms),
  };
}

function shifted(told: number, wasTold: number, was: number): number {
  return told + (was - wasTold) * (wasTold > 0 ? Math.min(1, told / wasTold) : 0);
}

/** Of one recipe: the service learns a second at a time. */
const MOST_ASKS = 600;

interface Told {
  readonly question: string;
  readonly about: About | null;
}

/** About what `recipe` takes; null before the service has learned to tell, and where it cannot. It learns once something
 *  was planned: who looks at the picker waits for that first. */
export function useApproximation(
  modelId: string,
  recipe: string | null,
  target: string,
  { estimate, of }: Estimated,
): About | null {
  const asked = `${modelId} ${target}`;
  const question = recipe === null || estimate === null ? null : `${asked} ${recipe}`;
  const [told, setTold] = useState<Told | null>(null);
  const cannot = useRef<string | null>(null);
  const both = useRef<(Both & { readonly asked: string }) | null>(null);
  useEffect(() => {
    if (question === null || cannot.current === asked) return;
    const abort = new AbortController();
    const learn = async () => {
      for (let asks = 0; asks < MOST_ASKS; asks++) {
        const said = await patiently(
          () => ask<Approximation>(`/models/${modelId}/approximation`, { recipe, target }, abort.signal),
          () => undefined,
          abort.signal,
        );
        if (abort.signal.aborted) return;
        if (said.learned === 1) return setTold({ question, about: said.takes ?? null });
      }
    };
    learn().catch((error: unknown) => {
      // What the recipe is refused for, the estimate says, too; anything else would come again.
      if (!abort.signal.aborted && !(error instanceof Problem && error.failureCode === 3003)) cannot.current = asked;
    });
    return () => abort.abort();
  }, [question]);
  const about = told !== null && told.question === question ? told.about : null;
  if (about && estimate && of === recipe) both.current = { asked, about, planned: estimate };
  return about && nearer(about, both.current?.asked === asked ? both.current : null);
}
