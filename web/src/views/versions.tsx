/** The versions of a model's or a dataset's name, and the tags of the one that is shown. */

import { useState } from "preact/hooks";
import { type Page, send } from "../api/client";
import type { Dataset, Model } from "../api/types";
import { curl } from "../commands";
import { Ago } from "../components/ago";
import { ConfirmButton } from "../components/confirm_button";
import { Loaded, Section, TableFrame } from "../components/page";
import { asProblem, useResource } from "../data";
import * as format from "../format";
import { to } from "../router";
import { Tags } from "./list_tools";
import { whyNotWrite } from "./uploads/panel";

type Versioned = Pick<Model & Dataset, "id" | "name" | "version" | "tags" | "size" | "created_at"> &
  Partial<Pick<Dataset, "samples" | "device_id">>;

interface VersionsProps {
  readonly kind: "models" | "datasets";
  /** The one that is shown. */
  readonly of: Versioned;
  readonly onChanged: () => void;
}

export function Versions({ kind, of, onChanged }: VersionsProps) {
  // A glob that means the name itself, where it holds no sign of globs.
  const path = `/${kind}?name=${encodeURIComponent(of.name)}&limit=200`;
  const found = useResource<Page<Versioned>>(path);
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
                  {of.samples !== undefined && (
                    <th scope="col" class="number">
                      Samples
                    </th>
                  )}
                  <th scope="col" class="number">
                    Size
                  </th>
                  <th scope="col">Pushed</th>
                </tr>
              </thead>
              <tbody>
                {items
                  .filter(({ name, device_id }) => name === of.name && device_id === of.device_id)
                  .map((one) => (
                    <tr key={one.id} aria-current={one.id === of.id ? "true" : undefined}>
                      <td>
                        {one.id === of.id ? (
                          <strong>{one.version}</strong>
                        ) : (
                          <a href={to([kind, one.id])}>{one.version}</a>
                        )}
                      </td>
                      <td>
                        <Tags tags={one.tags} />
                      </td>
                      {of.samples !== undefined && <td class="number">{format.count(one.samples)}</td>}
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
      <TagForm path={`/${kind}/${of.id}`} of={of} onChanged={changed} />
    </Section>
  );
}

const TAG = "[A-Za-z0-9_][A-Za-z0-9_.\\-]{0,63}";

interface TagFormProps {
  readonly path: string;
  readonly of: Versioned;
  readonly onChanged: () => void;
}

function TagForm({ path, of, onChanged }: TagFormProps) {
  const [tag, setTag] = useState("");
  const [failure, setFailure] = useState<string | null>(null);
  const why = whyNotWrite();
  const to = (word: string) => `${path}/tags/${encodeURIComponent(word)}`;
  const set = () => {
    setFailure(null);
    send(to(tag), { method: "PUT" }).then(
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
        set();
      }}
    >
      <label class="field">
        <span>New tag of version {of.version}; other versions lose it</span>
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
      {of.tags.map((word) => (
        <ConfirmButton
          key={word}
          verb={`Take ${word} away`}
          doing="Taking it away"
          what={`from version ${of.version}`}
          warning={`What asks for ${of.name}:${word} then finds nothing, until the tag is set again.`}
          act={() => send(to(word), { method: "DELETE" })}
          keep="Keep it"
          quiet
          why={why}
          onDone={onChanged}
        />
      ))}
      {failure !== null && (
        <p class="problem" role="alert">
          {failure}
        </p>
      )}
    </form>
  );
}
