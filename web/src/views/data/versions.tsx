/** The versions of a dataset's name, and the tags of the one that is shown. */

import { useState } from "preact/hooks";
import { type Page, send } from "../../api/client";
import type { Dataset } from "../../api/types";
import { curl } from "../../commands";
import { Ago } from "../../components/ago";
import { Loaded, Section, TableFrame } from "../../components/page";
import { asProblem, useResource } from "../../data";
import * as format from "../../format";
import { link } from "../../router";
import { Tags } from "../list_tools";
import { whyNotWrite } from "../uploads/panel";

/** A glob that means the name itself, where it holds no sign of globs. */
export function versionsPath({ name }: Dataset): string {
  return `/datasets?name=${encodeURIComponent(name)}&limit=200`;
}

export function Versions({ dataset, onChanged }: { readonly dataset: Dataset; readonly onChanged: () => void }) {
  const path = versionsPath(dataset);
  const found = useResource<Page<Dataset>>(path);
  const changed = () => {
    onChanged();
    found.reload();
  };
  return (
    <Section title="Versions and tags" command={curl(path)}>
      <Loaded of={found} what="versions">
        {({ items }) => (
          <TableFrame label="Versions">
            <table>
              <thead>
                <tr>
                  <th scope="col">Version</th>
                  <th scope="col">Tags</th>
                  <th scope="col" class="number">
                    Samples
                  </th>
                  <th scope="col" class="number">
                    Size
                  </th>
                  <th scope="col">Pushed</th>
                </tr>
              </thead>
              <tbody>
                {items
                  .filter(({ name, device_id }) => name === dataset.name && device_id === dataset.device_id)
                  .map((one) => (
                    <tr key={one.id} aria-current={one.id === dataset.id ? "true" : undefined}>
                      <td>
                        {one.id === dataset.id ? (
                          <strong>{one.version}</strong>
                        ) : (
                          <a href={link.dataset(one.id)}>{one.version}</a>
                        )}
                      </td>
                      <td>
                        <Tags tags={one.tags} />
                      </td>
                      <td class="number">{format.count(one.samples)}</td>
                      <td class="number">{format.bytes(one.size)}</td>
                      <td>
                        <Ago time={one.created_at} />
                      </td>
                    </tr>
                  ))}
              </tbody>
            </table>
          </TableFrame>
        )}
      </Loaded>
      <TagForm dataset={dataset} onChanged={changed} />
    </Section>
  );
}

const TAG = "[A-Za-z0-9_][A-Za-z0-9_.\\-]{0,63}";

function TagForm({ dataset, onChanged }: { readonly dataset: Dataset; readonly onChanged: () => void }) {
  const [tag, setTag] = useState("");
  const [failure, setFailure] = useState<string | null>(null);
  const why = whyNotWrite();
  const change = (method: "PUT" | "DELETE", word: string) => {
    setFailure(null);
    send(`/datasets/${dataset.id}/tags/${encodeURIComponent(word)}`, { method }).then(
      () => {
        setTag("");
        onChanged();
      },
      (error: unknown) => setFailure(asProblem(error).detail),
    );
  };
  return (
    <form
      class="tag-form"
      onSubmit={(event) => {
        event.preventDefault();
        change("PUT", tag);
      }}
    >
      <label class="field">
        <span>New tag of version {dataset.version}; other versions lose it</span>
        <input
          type="text"
          value={tag}
          pattern={TAG}
          required
          maxLength={64}
          disabled={why !== null}
          onInput={(event) => setTag(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="button" disabled={why !== null || tag === ""} title={why ?? ""}>
        Set the tag
      </button>
      {dataset.tags.map((word) => (
        <button
          key={word}
          type="button"
          class="button"
          disabled={why !== null}
          title={why ?? ""}
          onClick={() => change("DELETE", word)}
        >
          Take {word} away
        </button>
      ))}
      {failure !== null && (
        <p class="problem" role="alert">
          {failure}
        </p>
      )}
    </form>
  );
}
