/** The uploaded models, and one model with its builds and the form that requests another. */

import type { Build, Model } from "../api/types";
import { Ago } from "../components/ago";
import { CopyButton } from "../components/copy";
import { Figures } from "../components/figures";
import { Empty, Loaded, Page, Section, TableFrame } from "../components/page";
import { curl, curlBlob } from "../commands";
import * as format from "../format";
import { useList, useResource } from "../data";
import { link } from "../router";
import { NewBuild } from "./new_build";
import { BuildTable, More } from "./tables";

export function ModelsView() {
  const { of, more } = useList<Model>("/models", 10_000);
  return (
    <Page title="Models" command={curl("/models")}>
      <Section title="All models">
        <Loaded of={of} what="models">
          {(models) =>
            models.length === 0 ? (
              <Empty title="No models yet.">
                <p>
                  Upload an ONNX file: <code>POST /v1/uploads</code>, <code>PATCH</code> its bytes, then{" "}
                  <code>POST /v1/models</code>.
                </p>
              </Empty>
            ) : (
              <TableFrame label="Models">
                <table>
                  <thead>
                    <tr>
                      <th scope="col">Model</th>
                      <th scope="col" class="number">
                        Size
                      </th>
                      <th scope="col">SHA-256</th>
                      <th scope="col">Uploaded</th>
                    </tr>
                  </thead>
                  <tbody>
                    {models.map((model) => (
                      <tr key={model.id}>
                        <td>
                          <a href={link.model(model.id)}>{model.name}</a>
                        </td>
                        <td class="number">{format.bytes(model.size)}</td>
                        <td class="mono" title={model.digest}>
                          {format.shortDigest(model.digest)}
                        </td>
                        <td>
                          <Ago time={model.created_at} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </TableFrame>
            )
          }
        </Loaded>
        <More more={more} />
      </Section>
    </Page>
  );
}

export function ModelView({ id }: { readonly id: string }) {
  const path = `/models/${id}`;
  const model = useResource<Model>(path);
  const { of: builds, more } = useList<Build>(`/builds?model_id=${id}`, 2000);
  return (
    <Page
      title={model.data?.name ?? "Model"}
      kind="Model"
      back={{ href: "#/models", text: "Models" }}
      command={curl(path)}
    >
      <Loaded of={model} what="the model">
        {(data) => (
          <Section title="File">
            <Figures
              items={[
                { label: "Size", value: format.bytes(data.size), command: curl(path, ".size") },
                { label: "Uploaded", value: <Ago time={data.created_at} />, hint: format.timestamp(data.created_at) },
                {
                  label: "SHA-256",
                  value: <span class="mono">{format.shortDigest(data.digest)}</span>,
                  hint: (
                    <>
                      Download <CopyButton text={curlBlob(data.digest, "model.onnx")} of="downloading the model" />
                    </>
                  ),
                  command: curl(path, ".digest"),
                },
              ]}
            />
          </Section>
        )}
      </Loaded>
      <Section title="Builds" command={curl(`/builds?model_id=${id}`)}>
        <Loaded of={builds} what="builds">
          {(items) =>
            items.length === 0 ? (
              <Empty title="No builds of this model yet." />
            ) : (
              <BuildTable builds={items} label="Builds of this model" />
            )
          }
        </Loaded>
        <More more={more} />
      </Section>
      <NewBuild modelId={id} onCreated={builds.reload} />
    </Page>
  );
}
