/** The form that requests a build of a model for a target. */

import { useState } from "preact/hooks";
import { type Page, post, type Problem } from "../api/client";
import type { Build, Target } from "../api/types";
import { CopyButton } from "../components/copy";
import { Loaded, ProblemBox, Section } from "../components/page";
import { curlPost } from "../commands";
import { asProblem, useResource } from "../data";
import { Needs } from "../permission";
import { link } from "../router";

const FIRST_RECIPE = `loss: cross_entropy
optimizer: {name: sgd, lr: 0.05, momentum: 0.9}
batch: 8
update:
  - {params: "*.bias"}
`;

export function NewBuild({ modelId, onCreated }: { readonly modelId: string; readonly onCreated: () => void }) {
  const targets = useResource<Page<Target>>("/targets");
  const [target, setTarget] = useState("host");
  const [recipe, setRecipe] = useState(FIRST_RECIPE);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const body = { model_id: modelId, recipe, target };

  const submit = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    post<Build>("/builds", body)
      .then(
        (build) => {
          onCreated();
          location.hash = link.build(build.id);
        },
        (error: unknown) => setProblem(asProblem(error)),
      )
      .finally(() => setBusy(false));
  };

  return (
    <Section title="Request a build">
      <Needs scope="builds:write">
        <Loaded of={targets} what="targets">
          {({ items }) => (
            <form onSubmit={submit}>
              <label class="field">
                <span>Target</span>
                <select name="target" value={target} onChange={(event) => setTarget(event.currentTarget.value)}>
                  {items.map((item) => (
                    <option key={item.name} value={item.name}>
                      {item.name}
                      {item.description ? ` (${item.description})` : ""}
                    </option>
                  ))}
                </select>
              </label>
              <label class="field">
                <span>Recipe (YAML or JSON)</span>
                <textarea
                  name="recipe"
                  class="mono"
                  rows={8}
                  spellcheck={false}
                  value={recipe}
                  onInput={(event) => setRecipe(event.currentTarget.value)}
                />
              </label>
              {problem && <ProblemBox problem={problem} />}
              <div class="actions">
                <button type="submit" class="button button-primary" disabled={busy}>
                  {busy ? "Requesting …" : "Request build"}
                </button>
                <CopyButton text={curlPost("/builds", body)} of="requesting this build" />
              </div>
            </form>
          )}
        </Loaded>
      </Needs>
    </Section>
  );
}
