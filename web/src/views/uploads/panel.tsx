/** Where files are dropped or chosen, what was found among them, and the uploads of this tab. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Empty, Section } from "../../components/page";
import { asProblem } from "../../data";
import * as format from "../../format";
import { address, setQuery } from "../../router";
import { me } from "../../session";
import { chosenFiles, droppedFiles } from "../../uploads/dropped";
import { begin } from "../../uploads/jobs";
import { type Chosen, type Kind, makePlan, type Plan, type Planned } from "../../uploads/plan";
import { readDataset, readModel } from "../../uploads/work";
import { JobList } from "./jobs";
import "../../styles/uploads.css";

const WRITE = "models:write";

/** Why this person may not upload or delete; null where they may. */
export function whyNotWrite(): string | null {
  return me.value?.scopes.includes(WRITE) ? null : `Your key lacks the scope ${WRITE}, which this needs.`;
}

export function UploadButton({ kind }: { readonly kind: Kind }) {
  const open = address.value?.query.get("upload") === "1";
  const why = whyNotWrite();
  return (
    <button
      type="button"
      class="button button-primary"
      disabled={why !== null}
      title={why ?? ""}
      aria-expanded={open}
      onClick={() => setQuery({ upload: open ? null : "1" })}
    >
      Upload a {kind}
    </button>
  );
}

/** The uploads that were begun, and the place for more where the address asks for it. */
export function Uploads({ kind }: { readonly kind: Kind }) {
  const open = address.value?.query.get("upload") === "1";
  return (
    <>
      {open && <Panel kind={kind} />}
      <JobList />
    </>
  );
}

function Panel({ kind }: { readonly kind: Kind }) {
  const [plan, setPlan] = useState<Plan | null>(null);
  const choices = useRef(0);
  const [reading, setReading] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const why = whyNotWrite();

  const take = (files: () => Chosen[] | Promise<Chosen[]>) => {
    setReading(true);
    setFailure(null);
    Promise.resolve()
      .then(files)
      .then((chosen) => makePlan(chosen, kind, { model: readModel, dataset: readDataset }))
      .then(
        (found) => {
          choices.current += 1;
          setPlan(found);
        },
        (error: unknown) => setFailure(asProblem(error).detail),
      )
      .finally(() => setReading(false));
  };
  return (
    <Section title={`Upload a ${kind}`} note={NOTES[kind]}>
      {why === null ? <DropZone kind={kind} take={take} /> : <p role="alert">{why}</p>}
      <div role="status">{reading && <p class="loading">Reading the files …</p>}</div>
      {failure !== null && (
        <p class="problem" role="alert">
          {failure}
        </p>
      )}
      {plan && <Found key={choices.current} plan={plan} kind={kind} close={() => setPlan(null)} />}
    </Section>
  );
}

const NOTES: Readonly<Record<Kind, string>> = {
  model:
    "An ONNX file. If it keeps its weights in files beside it, choose these as well, or the whole folder. Files are sent " +
    "in parts: an upload goes on after the connection was lost.",
  dataset:
    "A safetensors file with one tensor for each input of the model, and labels; the first dimension counts samples. " +
    "Files are sent in parts: an upload goes on after the connection was lost.",
};

interface DropProps {
  readonly kind: Kind;
  readonly take: (files: () => Chosen[] | Promise<Chosen[]>) => void;
}

function DropZone({ kind, take }: DropProps) {
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  useEffect(() => {
    if (folder.current) folder.current.webkitdirectory = true;
  }, []);
  const choose = ({ currentTarget }: { readonly currentTarget: HTMLInputElement }) => {
    // Copied first: emptying the field, so that the same file can be chosen again, empties its list.
    const chosen = Array.from(currentTarget.files ?? []);
    currentTarget.value = "";
    if (chosen.length > 0) take(() => chosenFiles(chosen));
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (!event.dataTransfer) return;
    const found = droppedFiles(event.dataTransfer);
    take(() => found);
  };
  return (
    <div
      class={`drop${over ? " drop-over" : ""}`}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <p>Drop files here, or</p>
      <div class="actions">
        <button type="button" class="button" onClick={() => files.current?.click()}>
          Choose files
        </button>
        {kind === "model" && (
          <button type="button" class="button" onClick={() => folder.current?.click()}>
            Choose a folder
          </button>
        )}
      </div>
      <input ref={files} type="file" multiple hidden aria-label={`Files of a ${kind}`} onChange={choose} />
      {kind === "model" && (
        <input ref={folder} type="file" multiple hidden aria-label="Folder of a model" onChange={choose} />
      )}
    </div>
  );
}

function Found({ plan, kind, close }: { readonly plan: Plan; readonly kind: Kind; readonly close: () => void }) {
  const { planned, left } = plan;
  return (
    <div class="found" aria-live="polite">
      {planned.length === 0 && (
        <Empty title={kind === "model" ? "No ONNX file is among them." : "No safetensors file is among them."} />
      )}
      {planned.map((one) => (
        <PlannedForm key={one.file.name + one.file.size} planned={one} close={planned.length === 1 ? close : null} />
      ))}
      {left.length > 0 && (
        <ul class="left-out">
          {left.slice(0, 20).map(({ path, why }) => (
            <li key={path}>
              <span class="mono wrap">{path}</span> {why}
            </li>
          ))}
          {left.length > 20 && <li>{left.length - 20} files more are not sent.</li>}
        </ul>
      )}
    </div>
  );
}

function PlannedForm({ planned, close }: { readonly planned: Planned; readonly close: (() => void) | null }) {
  const [name, setName] = useState(planned.name);
  const [begun, setBegun] = useState(false);
  const ready = planned.why === null && planned.missing.length === 0 && name.trim() !== "";
  const size = planned.external.reduce((sum, { file }) => sum + file.size, planned.file.size);
  const submit = (event: Event) => {
    event.preventDefault();
    if (!ready || begun) return;
    begin(planned, name.trim());
    setBegun(true);
    close?.();
  };
  if (begun) return null;
  return (
    <form class="planned" onSubmit={submit}>
      <p>
        <span class="mono wrap">{planned.file.name}</span>{" "}
        <span class="faint">
          {planned.external.length > 0 && `and ${filesText(planned.external.length)} of data, `}
          {format.bytes(size)}
        </span>
      </p>
      {planned.why !== null && (
        <p class="problem" role="alert">
          <span class="mono wrap">{planned.file.name}</span> cannot be uploaded. {planned.why}
        </p>
      )}
      {planned.missing.length > 0 && (
        <p class="problem" role="alert">
          <span class="mono wrap">{planned.file.name}</span> keeps weights in{" "}
          <span class="mono wrap">{planned.missing.slice(0, 5).join(", ")}</span>
          {planned.missing.length > 5 && ` and ${planned.missing.length - 5} more`}, which you did not choose. Choose
          the model together with {planned.missing.length === 1 ? "this file" : "these files"}, or its folder.
        </p>
      )}
      {planned.why === null && planned.missing.length === 0 && (
        <div class="planned-row">
          <label class="field">
            <span>Name; one that exists gets a new version</span>
            <input type="text" value={name} maxLength={200} onInput={(event) => setName(event.currentTarget.value)} />
          </label>
          <button type="submit" class="button button-primary" disabled={!ready}>
            Upload
          </button>
        </div>
      )}
    </form>
  );
}

export function filesText(count: number): string {
  return count === 1 ? "1 file" : `${count} files`;
}
