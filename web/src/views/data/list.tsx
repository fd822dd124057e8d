/** The datasets: pushed to the service, or staying on devices. */

import type { Page as Answer } from "../../api/client";
import type { Dataset, Device } from "../../api/types";
import { curl } from "../../commands";
import { Ago } from "../../components/ago";
import { Command } from "../../components/copy";
import { DeleteButton } from "../../components/delete_button";
import { Empty, Loaded, Page, Section, TableFrame } from "../../components/page";
import { useList, useResource } from "../../data";
import * as format from "../../format";
import { link } from "../../router";
import { ListTools, listPath, Tags } from "../list_tools";
import { More } from "../tables";
import { UploadButton, Uploads, whyNotWrite } from "../uploads/panel";
import { inputsFirst } from "./samples";
import { DELETE_WARNING, whyNotDeleted } from "./dataset";
import "../../styles/data.css";

export function DatasetsView() {
  const path = listPath("/datasets");
  const { of, more } = useList<Dataset>(path, 10_000);
  const local = of.data?.some(({ device_id }) => device_id !== null) ?? false;
  const devices = useResource<Answer<Device>>(local ? "/devices?limit=200" : null);
  const names = new Map(devices.data?.items.map(({ id, name }) => [id, name]));
  return (
    <Page title="Data" command={curl(path)} aside={<UploadButton kind="dataset" />}>
      <Uploads kind="dataset" />
      <Section title="All datasets">
        <ListTools what="datasets" />
        <Loaded of={of} what="datasets">
          {(datasets) =>
            datasets.length > 0 ? (
              <DatasetTable datasets={datasets} names={names} reload={of.reload} />
            ) : path === "/datasets" ? (
              <NothingYet />
            ) : (
              <Empty title="No dataset has such a name." />
            )
          }
        </Loaded>
        <More more={more} />
      </Section>
    </Page>
  );
}

function NothingYet() {
  return (
    <Empty title="No datasets yet.">
      <p>
        <a href="#/datasets?upload=1">Upload a safetensors file</a>. In Python, from arrays:
      </p>
      <Command
        text={`from safetensors.numpy import save_file

save_file({"input": images, "labels": labels}, "train.safetensors")  # float32 [samples, …], int64 [samples]`}
        of="making a dataset"
      />
      <Command text="pock push train.safetensors" of="pushing a dataset" />
    </Empty>
  );
}

interface TableProps {
  readonly datasets: readonly Dataset[];
  readonly names: ReadonlyMap<string, string>;
  readonly reload: () => void;
}

function DatasetTable({ datasets, names, reload }: TableProps) {
  return (
    <TableFrame label="Datasets">
      <table>
        <thead>
          <tr>
            <th scope="col">Dataset</th>
            <th scope="col" class="number">
              Version
            </th>
            <th scope="col">Tags</th>
            <th scope="col" class="number">
              Samples
            </th>
            <th scope="col">Tensors</th>
            <th scope="col" class="number">
              Size
            </th>
            <th scope="col">Lies</th>
            <th scope="col">Last run</th>
            <th scope="col">
              <span class="visually-hidden">Delete</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {datasets.map((dataset) => (
            <tr key={dataset.id}>
              <td class="wrap">
                <a href={link.dataset(dataset.id)}>{dataset.name}</a>
              </td>
              <td class="number">{dataset.version}</td>
              <td>
                <Tags tags={dataset.tags} />
              </td>
              <td class="number">{format.count(dataset.samples)}</td>
              <td class="tensor-cell">{tensorsText(dataset)}</td>
              <td class="number">{format.bytes(dataset.size)}</td>
              <td>
                {dataset.device_id === null ? (
                  "in the service"
                ) : (
                  <>
                    on <a href={link.device(dataset.device_id)}>{names.get(dataset.device_id) ?? "a device"}</a>
                    {dataset.gone_at && <span class="faint">, no longer</span>}
                  </>
                )}
              </td>
              <td>{dataset.used_at ? <Ago time={dataset.used_at} /> : format.NOTHING}</td>
              <td class="row-action">
                <DeleteButton
                  quiet
                  what={`${dataset.name}, version ${dataset.version}`}
                  warning={DELETE_WARNING}
                  path={`/datasets/${dataset.id}`}
                  why={whyNotWrite() ?? whyNotDeleted(dataset)}
                  onDeleted={reload}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

const MOST_TENSORS = 3;

/** "input 3 × 32 × 32, labels". */
export function tensorsText({ tensors }: Dataset): string {
  const told = inputsFirst(tensors)
    .slice(0, MOST_TENSORS)
    .map(({ name, shape }) => {
      const sample = shape.slice(1);
      return sample.length === 0 ? name : `${name} ${format.shape(sample)}`;
    });
  const more = tensors.length - told.length;
  return more > 0 ? `${told.join(", ")} and ${more} more` : told.join(", ");
}
