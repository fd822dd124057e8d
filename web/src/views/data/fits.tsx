/** The models that a dataset fits: what was built says so at once, of others the compiler is asked. */

import { useState } from "preact/hooks";
import type { Check, Dataset, DatasetFits, Model, ModelFit } from "../../api/types";
import { curl } from "../../commands";
import { Empty, Loaded, Section } from "../../components/page";
import { useList, useResource } from "../../data";
import { misfit, portOf } from "../../fit";
import { link } from "../../router";

export function Fits({ dataset }: { readonly dataset: Dataset }) {
  const path = `/datasets/${dataset.id}/fits`;
  const found = useResource<DatasetFits>(path);
  const { of: models } = useList<Model>("/models", 0);
  const built = new Set(found.data?.items.map(({ model_id }) => model_id));
  const others = found.data ? (models.data ?? []).filter(({ id }) => !built.has(id)) : [];
  return (
    <Section
      title="Fit with models"
      command={curl(path)}
      note="Compared with the inputs of each model's newest build. Of a model that was not built, what the loss reads is not known yet."
    >
      <Loaded of={found} what="models">
        {({ items }) =>
          items.length + others.length === 0 ? (
            <Empty title="There is no model yet." />
          ) : (
            <ul class="fits">
              {items.map((fit) => (
                <BuiltFit key={fit.model_id} fit={fit} />
              ))}
              {others.map((model) => (
                <UnbuiltFit key={model.id} dataset={dataset} model={model} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Section>
  );
}

function BuiltFit({ fit }: { readonly fit: ModelFit }) {
  return (
    <li>
      <Sign good={fit.fits}>{fit.fits ? "fits" : "does not fit"}</Sign>
      <span>
        <a href={link.model(fit.model_id)}>{fit.model_name}</a> <span class="faint">version {fit.model_version}</span>
        {fit.reason && <span class="fit-reason">{fit.reason}</span>}
      </span>
    </li>
  );
}

/** The compiler takes seconds to read a model, so it is asked for one at a time. */
function UnbuiltFit({ dataset, model }: { readonly dataset: Dataset; readonly model: Model }) {
  const [asked, setAsked] = useState(false);
  const check = useResource<Check>(asked ? `/models/${model.id}/check?target=host` : null);
  const inputs = check.data && Object.entries(check.data.inputs).map(([name, type]) => portOf(name, type));
  const why = inputs && misfit(dataset.tensors, inputs);
  return (
    <li>
      <Sign good={inputs !== null && why === null}>
        {inputs === null ? "not built" : why === null ? "its inputs fit" : "does not fit"}
      </Sign>
      <span>
        <a href={link.model(model.id)}>{model.name}</a> <span class="faint">version {model.version}</span>{" "}
        {!asked && (
          <button type="button" class="button button-quiet" onClick={() => setAsked(true)}>
            Compare inputs<span class="visually-hidden"> of {model.name}</span>
          </button>
        )}
        {asked && check.data === null && check.problem === null && <span class="faint">Reading the model …</span>}
        {why && <span class="fit-reason">{why}</span>}
        {check.problem && <span class="fit-reason">{check.problem.detail}</span>}
      </span>
    </li>
  );
}

function Sign({ good, children }: { readonly good: boolean; readonly children: string }) {
  return (
    <span class={`badge badge-${good ? "good" : "quiet"}`}>
      <span class="badge-dot" aria-hidden="true" />
      {children}
    </span>
  );
}
