/** What searches found for a model: recipes to begin with, and what each parameter brings. */

import { useMemo, useState } from "preact/hooks";
import { get, type Page as ListPage, type Problem } from "../../api/client";
import type { Recipe, RecipeBrief, Search } from "../../api/types";
import { ProblemBox } from "../../components/page";
import { asProblem, useResource } from "../../data";
import { gainsOf } from "../../scheme/contributions";

/** The newest first, without their texts. */
function useFound(modelId: string): readonly RecipeBrief[] {
  const recipes = useResource<ListPage<RecipeBrief>>(`/recipes?model_id=${modelId}&limit=100`);
  return recipes.data?.items ?? [];
}

/** Parameter -> what training it brings, by the latest search of the model; empty where there was none. */
export function useGains(modelId: string): ReadonlyMap<string, number> {
  const id = useFound(modelId).find(({ search_id: search }) => search !== null)?.search_id ?? null;
  const search = useResource<Search>(id === null ? null : `/searches/${id}`);
  const digest = search.data?.result_digest ?? null;
  const result = useResource<unknown>(digest === null ? null : `/blobs/sha256/${digest}`);
  return useMemo(() => gainsOf(result.data), [result.data]);
}

interface ProposalsProps {
  readonly modelId: string;
  readonly onText: (text: string) => void;
}

/** The recipes that searches found for this model. */
export function Proposals({ modelId, onText }: ProposalsProps) {
  const found = useFound(modelId);
  const [problem, setProblem] = useState<Problem | null>(null);
  if (found.length === 0) return null;
  const begin = (id: string) => {
    setProblem(null);
    get<Recipe>(`/recipes/${id}`).then(
      ({ text }) => onText(text),
      (error: unknown) => setProblem(asProblem(error)),
    );
  };
  return (
    <label class="field">
      <span>Or with what a search found</span>
      <select
        value=""
        onChange={(event) => {
          if (event.currentTarget.value !== "") begin(event.currentTarget.value);
          event.currentTarget.value = "";
        }}
      >
        <option value="">a found recipe …</option>
        {found.map((recipe) => (
          <option key={recipe.id} value={recipe.id}>
            {recipe.name}:v{recipe.version}
          </option>
        ))}
      </select>
      {problem && <ProblemBox problem={problem} />}
    </label>
  );
}
