/** One model with its builds and the form that requests another. */

import type { Build, Model } from "../api/types";
import { Ago } from "../components/ago";
import { CopyButton } from "../components/copy";
import { Figures } from "../components/figures";
import { Empty, Loaded, Page, Section } from "../components/page";
import { curl, curlBlob } from "../commands";
import * as format from "../format";
import { useList, useResource } from "../data";
import { NewBuild } from "./new_build";
import { BuildTable, More } from "./tables";

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
