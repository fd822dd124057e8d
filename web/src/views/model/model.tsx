/** One model: whether it can be trained, what is in it, what training takes, and its builds. */

import { useState } from "preact/hooks";
import type { Build, Check, Model } from "../../api/types";
import { Ago, At } from "../../components/ago";
import { CopyButton } from "../../components/copy";
import { Download } from "../../components/download";
import { Facts, Figures } from "../../components/figures";
import { Later } from "../../components/later";
import { memo } from "../../components/memo";
import { Empty, isSettled, Loaded, Page, Section, TableFrame } from "../../components/page";
import { curl, curlBlob } from "../../commands";
import { useList, useResource } from "../../data";
import * as format from "../../format";
import { fileName } from "../../names";
import { go, link } from "../../router";
import { BuildTable, More } from "../tables";
import { Versions } from "../versions";
import { DeleteModel } from "./delete";
import { Layers } from "./layers";
import "../../styles/scheme.css";

export function ModelView({ id }: { readonly id: string }) {
  const path = `/models/${id}`;
  const model = useResource<Model>(path);
  const check = useResource<Check>(`${path}/check?target=host`);
  const { of: builds, more } = useList<Build>(`/builds?model_id=${id}`, 5000);
  return (
    <Page
      title={model.data?.name ?? "Model"}
      kind="Model"
      back={{ href: "#/models", text: "Models" }}
      command={curl(path)}
      aside={
        <>
          <a class="button" href={link.graph(id)}>
            See the graph
          </a>
          <a class="button button-primary" href={link.scheme(id)}>
            Choose what to train
          </a>
          {model.data && <DeleteModel model={model.data} onDeleted={() => go("#/models")} />}
        </>
      }
    >
      <Loaded of={model} what="the model">
        {(data) => <File model={data} path={path} />}
      </Loaded>
      {isSettled(model) && (
        <Later>
          <Section title="Builds" command={curl(`/builds?model_id=${id}`)}>
            <p>
              <a href={link.matrix(id)}>As schemes by targets</a>
            </p>
            <Loaded of={builds} what="builds">
              {(items) =>
                items.length === 0 ? (
                  <Empty title="No builds of this model yet.">
                    <p>
                      <a href={link.scheme(id)}>Choose what to train</a>, and build it from there.
                    </p>
                  </Empty>
                ) : (
                  <BuildTable builds={items} label="Builds of this model" />
                )
              }
            </Loaded>
            <More more={more} />
          </Section>
        </Later>
      )}
      {isSettled(model, builds) && (
        <>
          {model.data && (
            <Later>
              <ItsVersions kind="models" of={model.data} onChanged={model.reload} />
            </Later>
          )}
          <Later>
            <Section
              title="Coverage"
              command={curl(`${path}/check?target=host`, "{supported, operators, unsupported}")}
            >
              <Loaded of={check} what="what the compiler says of it; the first time it takes some seconds">
                {(data) => <Coverage check={data} />}
              </Loaded>
            </Section>
          </Later>
          {check.data?.supported && (
            <>
              <Later>
                <Section title="What training takes" command={curl(`${path}/check?target=host`, ".recipes")}>
                  <Usual check={check.data} id={id} />
                </Section>
              </Later>
              <Later>
                <Section title="Layers" command={curl(`${path}/check?target=host`, ".layers")}>
                  <Layers layers={check.data.layers} />
                </Section>
              </Later>
            </>
          )}
        </>
      )}
    </Page>
  );
}

const ItsVersions = memo(Versions);

function File({ model, path }: { readonly model: Model; readonly path: string }) {
  const others = Object.keys(model.external).length;
  return (
    <Section title="File">
      <Figures
        items={[
          {
            label: "Size",
            value: format.bytes(model.size),
            hint: others > 0 ? `and ${others} ${others === 1 ? "file" : "files"} of weights beside it` : undefined,
            command: curl(path, ".size"),
          },
          {
            label: "Version",
            value: `v${model.version}`,
            hint: model.tags.length > 0 ? `tags: ${model.tags.join(", ")}` : undefined,
            command: curl(path, ".version"),
          },
          { label: "Uploaded", value: <Ago time={model.created_at} />, hint: <At time={model.created_at} /> },
          {
            label: "SHA-256",
            value: <span class="mono">{format.shortDigest(model.digest)}</span>,
            hint: (
              <>
                Download <CopyButton text={curlBlob(model.digest, "model.onnx")} of="downloading the model" />
              </>
            ),
            command: curl(path, ".digest"),
          },
        ]}
      />
      <Files model={model} />
    </Section>
  );
}

/** The model as it was uploaded: an ONNX file, and what it names beside itself. */
function Files({ model }: { readonly model: Model }) {
  const beside = Object.entries(model.external);
  return (
    <>
      <div class="actions">
        <Download digest={model.digest} file={fileName(model, "onnx")}>
          Download
        </Download>
        {beside.map(([place, digest]) => (
          <Download key={place} digest={digest} file={place.split("/").at(-1) ?? place}>
            {`Download ${place}`}
          </Download>
        ))}
      </div>
      {beside.length > 0 && (
        <p class="note">The ONNX file finds its weights under these names, in the folder in which it lies itself.</p>
      )}
    </>
  );
}

function Coverage({ check }: { readonly check: Check }) {
  const [all, setAll] = useState(false);
  const operators = all ? check.operators : check.operators.slice(0, 12);
  return (
    <>
      {check.supported ? (
        <p class="note">
          Every operator is supported, its gradient too where one is needed: this model can be trained.
        </p>
      ) : (
        <Missing check={check} />
      )}
      {check.supported && (
        <Facts
          items={[
            ["Parameters", format.count(check.param_count)],
            ["Operations of a forward pass", format.count(check.flops_forward)],
            ["Inputs", typesText(check.inputs)],
            ["Outputs", typesText(check.outputs)],
          ]}
        />
      )}
      {check.operators.length > 0 && (
        <ul class="operators" aria-label="Operators">
          {operators.map(({ operator, count, status }) => (
            <li key={operator} class={status === "unsupported" ? "unsupported" : undefined} title={status}>
              {operator} × {count}
              {status !== "supported" && `, ${status}`}
            </li>
          ))}
          {check.operators.length > operators.length && (
            <li>
              <button type="button" class="button" onClick={() => setAll(true)}>
                {check.operators.length - operators.length} more
              </button>
            </li>
          )}
        </ul>
      )}
    </>
  );
}

const typesText = (types: Readonly<Record<string, string>>) =>
  Object.entries(types)
    .map(([name, type]) => `${name}: ${type}`)
    .join("; ");

function Missing({ check }: { readonly check: Check }) {
  return (
    <>
      <p class="note">Something in this model cannot be trained yet. What to do is said beside it.</p>
      <TableFrame label="What is not supported">
        <table>
          <thead>
            <tr>
              <th scope="col">Operator</th>
              <th scope="col">Node</th>
              <th scope="col">Shapes</th>
              <th scope="col">Where</th>
              <th scope="col">What to do</th>
            </tr>
          </thead>
          <tbody>
            {check.unsupported.map(({ operator, node, shapes, position, advice }) => (
              <tr key={`${operator} ${node}`}>
                <td>{operator}</td>
                <td class="mono wrap">{node}</td>
                <td class="mono wrap">{shapes}</td>
                <td>{position}</td>
                <td>{advice}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </>
  );
}

const NAMES: Readonly<Record<string, string>> = { full: "everything", head: "the head", bias: "the biases" };

function Usual({ check, id }: { readonly check: Check; readonly id: string }) {
  return (
    <>
      <p class="note">
        Planned for the machine that serves this page, with AdamW and the loss that suits the output.{" "}
        <a href={link.scheme(id)}>Choose what to train</a> for any device.
      </p>
      <TableFrame label="What training takes">
        <table>
          <thead>
            <tr>
              <th scope="col">What is trained</th>
              <th scope="col" class="number">
                Peak memory
              </th>
              <th scope="col" class="number">
                Activations and gradients
              </th>
              <th scope="col" class="number">
                Operations a step
              </th>
              <th scope="col" class="number">
                Expected step
              </th>
              <th scope="col" class="number">
                Numbers trained
              </th>
            </tr>
          </thead>
          <tbody>
            {Object.entries(check.recipes).map(([name, { takes, error }]) => (
              <tr key={name}>
                <td>{NAMES[name] ?? name}</td>
                {takes ? (
                  <>
                    <td class="number">{format.bytes(takes.predicted_peak_bytes)}</td>
                    <td class="number">{format.bytes(takes.arena_bytes)}</td>
                    <td class="number">
                      {format.count(Object.values(takes.flops).reduce((sum, one) => sum + one, 0))}
                    </td>
                    <td class="number">{format.milliseconds(takes.step_ms)}</td>
                    <td class="number">{format.count(takes.trained_parameters)}</td>
                  </>
                ) : (
                  <td colSpan={5}>{error}</td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </>
  );
}
