/** One dataset: what it holds, its samples, its numbers and labels, and the models that it fits. */

import type { Dataset, Device } from "../../api/types";
import { curl, curlBlob, quote } from "../../commands";
import { Ago, At } from "../../components/ago";
import { Command } from "../../components/copy";
import { DeleteButton } from "../../components/delete_button";
import { Download } from "../../components/download";
import { Figures } from "../../components/figures";
import { Later } from "../../components/later";
import { Loaded, Page, Section } from "../../components/page";
import { useResource } from "../../data";
import * as format from "../../format";
import { fileName } from "../../names";
import { go, link } from "../../router";
import { Tags } from "../list_tools";
import { Versions } from "../versions";
import { whyNotWrite } from "../uploads/panel";
import { Labels, Tensors } from "./facts";
import { Fits } from "./fits";
import { Preview } from "./preview";
import "../../styles/uploads.css";
import "../../styles/data.css";

export function DatasetView({ id }: { readonly id: string }) {
  const path = `/datasets/${id}`;
  const dataset = useResource<Dataset>(path);
  return (
    <Page
      title={dataset.data ? `${dataset.data.name}, version ${dataset.data.version}` : "Dataset"}
      kind="Dataset"
      back={{ href: "#/datasets", text: "Data" }}
      command={curl(path)}
      aside={dataset.data && <Actions dataset={dataset.data} />}
    >
      <Loaded of={dataset} what="the dataset">
        {(data) => (
          <>
            <Summary dataset={data} />
            <Later>{data.device_id === null ? <Preview dataset={data} /> : <Stays />}</Later>
            <Later>
              <Labels dataset={data} />
            </Later>
            <Later>
              <Tensors dataset={data} />
            </Later>
            <Later>
              <Fits dataset={data} />
            </Later>
            <Later>
              <Versions kind="datasets" of={data} onChanged={dataset.reload} />
            </Later>
            <Later>
              <HowTo dataset={data} />
            </Later>
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Actions({ dataset }: { readonly dataset: Dataset }) {
  const file = fileName(dataset, "safetensors");
  return (
    <>
      {dataset.device_id === null && (
        <Download digest={dataset.digest} file={file}>
          Download
        </Download>
      )}
      <DeleteButton
        what={`${dataset.name}, version ${dataset.version}`}
        warning={DELETE_WARNING}
        path={`/datasets/${dataset.id}`}
        why={whyNotWrite() ?? whyNotDeleted(dataset)}
        onDeleted={() => go("#/datasets")}
      />
    </>
  );
}

export const DELETE_WARNING =
  "Its file is removed from the service, unless something else uses it. The version's number is not given again.";

export function whyNotDeleted({ runs, device_id, gone_at }: Dataset): string | null {
  if (device_id !== null && gone_at === null) return "It stays on a device; remove it there: pock-agent data remove.";
  if (runs === 0) return null;
  return runs === 1 ? "A run used it; delete that first." : `${runs} runs used it; delete them first.`;
}

function Summary({ dataset }: { readonly dataset: Dataset }) {
  const path = `/datasets/${dataset.id}`;
  const device = useResource<Device>(dataset.device_id === null ? null : `/devices/${dataset.device_id}`);
  return (
    <Section title="Overview">
      <Figures
        items={[
          { label: "Samples", value: format.count(dataset.samples), command: curl(path, ".samples") },
          { label: "Size", value: format.bytes(dataset.size), command: curl(path, ".size") },
          {
            label: "Lies",
            value: dataset.device_id ? (
              <a href={link.device(dataset.device_id)}>{device.data?.name ?? "on a device"}</a>
            ) : (
              "in the service"
            ),
            hint: dataset.gone_at ? (
              <>
                the device has had it no more since <Ago time={dataset.gone_at} />
              </>
            ) : dataset.device_id ? (
              "its bytes never leave the device"
            ) : null,
          },
          {
            label: dataset.device_id ? "Told" : "Pushed",
            value: <Ago time={dataset.created_at} />,
            hint: <At time={dataset.created_at} />,
          },
          {
            label: "Runs",
            value: format.count(dataset.runs),
            hint: dataset.used_at ? (
              <>
                last <Ago time={dataset.used_at} />
              </>
            ) : null,
            command: curl(path, ".runs"),
          },
          {
            label: "Tags",
            value: dataset.tags.length > 0 ? <Tags tags={dataset.tags} /> : format.NOTHING,
            command: curl(path, ".tags"),
          },
        ]}
      />
    </Section>
  );
}

function Stays() {
  return (
    <Section title="Samples">
      <p class="note">
        This dataset stays on its device: the service knows what its tensors are, and has none of its samples. There is
        nothing to preview.
      </p>
    </Section>
  );
}

/** Python that writes a file with the same tensors. */
function pythonOf({ tensors }: Dataset): string {
  const inputs = tensors.filter(({ name }) => name !== "labels").slice(0, 4);
  const variable = (index: number) => (inputs.length > 1 ? `inputs_${index}` : "inputs");
  const entries = inputs.map(({ name }, index) => `${JSON.stringify(name)}: ${variable(index)}`);
  return `from safetensors.numpy import save_file

# one array for each input [samples, …], and labels, int64 [samples]
save_file({${[...entries, '"labels": labels'].join(", ")}}, "train.safetensors")`;
}

function HowTo({ dataset }: { readonly dataset: Dataset }) {
  const { name, version, digest, device_id } = dataset;
  const next =
    device_id === null
      ? `pock push train.safetensors --name ${quote(name)}`
      : `pock-agent data add ${quote(name)} train.safetensors`;
  return (
    <Section title="In a terminal">
      {device_id === null && (
        <>
          <p class="note">Fetch this version:</p>
          <Command
            text={`pock download ${quote(`${name}:v${version}`)} --as dataset -o data.safetensors`}
            of="downloading with pock"
          />
          <Command text={curlBlob(digest, "data.safetensors")} of="downloading with curl" />
        </>
      )}
      <p class="note data-how">
        {device_id === null
          ? "Make a file like it in Python, and push it as the next version:"
          : "Make a file like it in Python, and give it to the device, on the device:"}
      </p>
      <Command text={pythonOf(dataset)} of="making a dataset" />
      <Command text={next} of="adding a dataset" />
    </Section>
  );
}
