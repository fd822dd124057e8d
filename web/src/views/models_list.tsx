/** The uploaded models, and the place where more are uploaded. */

import type { Model } from "../api/types";
import { Ago } from "../components/ago";
import { Empty, Loaded, Page, Section, TableFrame } from "../components/page";
import { curl } from "../commands";
import { useList } from "../data";
import * as format from "../format";
import { link } from "../router";
import { ListTools, listPath, Tags } from "./list_tools";
import { More } from "./tables";
import { DeleteModel } from "./model/delete";
import { filesText, UploadButton, Uploads } from "./uploads/panel";

export function ModelsView() {
  const path = listPath("/models");
  const { of, more } = useList<Model>(path, 10_000);
  return (
    <Page title="Models" command={curl(path)} aside={<UploadButton kind="model" />}>
      <Uploads kind="model" />
      <Section title="All models">
        <ListTools what="models" />
        <Loaded of={of} what="models">
          {(models) =>
            models.length > 0 ? (
              <ModelTable models={models} reload={of.reload} />
            ) : path === "/models" ? (
              <Empty title="No models yet.">
                <p>
                  <a href="#/models?upload=1">Upload an ONNX file</a>, or in a terminal:{" "}
                  <code>pock push model.onnx</code>.
                </p>
              </Empty>
            ) : (
              <Empty title="No model has such a name." />
            )
          }
        </Loaded>
        <More more={more} />
      </Section>
    </Page>
  );
}

function ModelTable({ models, reload }: { readonly models: readonly Model[]; readonly reload: () => void }) {
  return (
    <TableFrame label="Models">
      <table>
        <thead>
          <tr>
            <th scope="col">Model</th>
            <th scope="col" class="number">
              Version
            </th>
            <th scope="col">Tags</th>
            <th scope="col" class="number">
              Size
            </th>
            <th scope="col" class="number">
              Builds
            </th>
            <th scope="col">Last build</th>
            <th scope="col">Uploaded</th>
            <th scope="col">
              <span class="visually-hidden">Delete</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {models.map((model) => (
            <tr key={model.id}>
              <td class="wrap">
                <a href={link.model(model.id)}>{model.name}</a>
              </td>
              <td class="number">{model.version}</td>
              <td>
                <Tags tags={model.tags} />
              </td>
              <td class="number" title={`SHA-256 ${model.digest}`}>
                {format.bytes(model.size)}
                {Object.keys(model.external).length > 0 && (
                  <span class="faint"> + {filesText(Object.keys(model.external).length)}</span>
                )}
              </td>
              <td class="number">{model.builds}</td>
              <td>{model.used_at ? <Ago time={model.used_at} /> : format.NOTHING}</td>
              <td>
                <Ago time={model.created_at} />
              </td>
              <td class="row-action">
                <DeleteModel quiet model={model} onDeleted={reload} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}
