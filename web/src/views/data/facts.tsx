/** What is known of a dataset beside its samples: tensors with their numbers, and labels. */

import type { Dataset, DatasetLabels, DatasetStatistics } from "../../api/types";
import { curl } from "../../commands";
import { Loaded, ProblemBox, Section, TableFrame } from "../../components/page";
import { useResource } from "../../data";
import * as format from "../../format";
import { setQuery } from "../../router";
import { inputsFirst, numberText } from "./samples";

export function Tensors({ dataset }: { readonly dataset: Dataset }) {
  const here = dataset.device_id === null;
  const path = `/datasets/${dataset.id}/statistics`;
  const found = useResource<DatasetStatistics>(here ? path : null);
  const known = new Map(found.data?.tensors.map((one) => [one.tensor, one]));
  const partly = found.data?.tensors.some(({ counted, of }) => counted < of);
  return (
    <Section
      title="Tensors"
      command={curl(here ? path : `/datasets/${dataset.id}`)}
      note={partly ? "Of large tensors, parts that are evenly spread were looked at: the numbers are estimates." : null}
    >
      {found.problem && <ProblemBox problem={found.problem} retry={found.reload} />}
      <TableFrame label="Tensors">
        <table>
          <thead>
            <tr>
              <th scope="col">Tensor</th>
              <th scope="col">Type</th>
              <th scope="col">Shape of a sample</th>
              {["Least", "Largest", "Mean", "NaN", "Infinite"].map((name) => (
                <th key={name} scope="col" class="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {inputsFirst(dataset.tensors).map(({ name, dtype, shape }) => {
              const numbers = known.get(name);
              return (
                <tr key={name}>
                  <td class="wrap">
                    {here ? (
                      <button type="button" class="link-button" onClick={() => look(name)}>
                        {name}
                      </button>
                    ) : (
                      name
                    )}
                  </td>
                  <td>{dtype}</td>
                  <td>{format.shape(shape.slice(1))}</td>
                  <td class="number">{told(numbers?.min)}</td>
                  <td class="number">{told(numbers?.max)}</td>
                  <td class="number">{told(numbers?.mean)}</td>
                  <td class={`number${numbers?.nan ? " job-failed" : ""}`}>{format.count(numbers?.nan)}</td>
                  <td class={`number${numbers?.infinite ? " job-failed" : ""}`}>{format.count(numbers?.infinite)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </TableFrame>
    </Section>
  );
}

function look(tensor: string): void {
  setQuery({ tensor, as: null });
  document.querySelector(".preview-tools")?.scrollIntoView({ block: "center" });
}

function told(value: number | null | undefined): string {
  return value === null || value === undefined ? format.NOTHING : numberText(value);
}

const WHOLE = /^(bool|[iu]\d+)$/;
const MOST_BARS = 100;

export function Labels({ dataset }: { readonly dataset: Dataset }) {
  const tensor = dataset.tensors.find(({ name }) => name === "labels");
  const counted = dataset.device_id === null && tensor !== undefined && WHOLE.test(tensor.dtype);
  const path = `/datasets/${dataset.id}/labels`;
  const found = useResource<DatasetLabels>(counted ? path : null);
  if (!counted) return null;
  return (
    <Section title="Labels" command={curl(path)}>
      <Loaded of={found} what="label counts">
        {(labels) => <LabelBars labels={labels} />}
      </Loaded>
    </Section>
  );
}

function LabelBars({ labels }: { readonly labels: DatasetLabels }) {
  const { classes, distinct, counted, of } = labels;
  if (distinct === null) return <p class="note">More than 10,000 labels differ: these are not classes.</p>;
  const most = classes.reduce((largest, { count }) => Math.max(largest, count), 1);
  return (
    <>
      <p class="note">
        {format.count(distinct)} {distinct === 1 ? "class" : "classes"} in {format.count(counted)} labels
        {counted < of && `, a part of ${format.count(of)} that is evenly spread`}
        {classes.length > MOST_BARS && `; the first ${MOST_BARS} are shown`}.
      </p>
      <ol class="bars-list">
        {classes.slice(0, MOST_BARS).map(({ label, count }) => (
          <li key={label}>
            <span class="bars-name">{label}</span>
            <svg class="bars-bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
              <rect width={(100 * count) / most} height="10" />
            </svg>
            <span class="bars-count">
              {format.count(count)} <span class="faint">{format.percent(count / Math.max(1, counted))}</span>
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}
