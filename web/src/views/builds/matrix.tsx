/** What is trained by target, of one model: what is built, what goes on, what failed and what is missing. */

import "../../styles/builds.css";
import { useState } from "preact/hooks";
import { post, type Problem } from "../../api/client";
import type { Build, Model } from "../../api/types";
import { Progress, StateBadge } from "../../components/badge";
import { Empty, Loaded, ProblemBox, Section, TableFrame } from "../../components/page";
import { curl } from "../../commands";
import { asProblem, SELDOM_MS, useList } from "../../data";
import * as format from "../../format";
import { useChanges } from "../../hooks";
import { versionText } from "../../names";
import { Needs } from "../../permission";
import { address, link, setQuery } from "../../router";
import { More } from "../tables";
import { FurtherTargets, furtherTargets } from "./further_targets";
import { askingOf } from "./asking";
import { AskedLine, MissingDialog, TellingDialog } from "./missing_dialog";
import { allMissing, isOlder, type Matrix, matrixOf, type Missing, orderLike, type Row } from "./rows";

export function BuildMatrix() {
  const asked = address.value?.query.get("model") ?? null;
  const models = useList<Model>("/models", SELDOM_MS);
  const latest = useList<Build>(asked === null ? "/builds" : null, SELDOM_MS, 1);
  const id = asked ?? latest.of.data?.[0]?.model_id ?? models.of.data?.[0]?.id ?? null;
  const path = id === null ? null : `/builds?model_id=${id}`;
  const { of, more } = useList<Build>(path, SELDOM_MS);
  useChanges("builds", of.reload);
  return (
    <Section title="Schemes by targets" command={path ? curl(path) : undefined}>
      <Loaded of={models.of} what="models">
        {(known) =>
          known.length === 0 ? (
            <Empty title="No models yet.">
              <p>
                <a href="#/models?upload=1">Upload one</a>, and choose what to train.
              </p>
            </Empty>
          ) : (
            <label class="field">
              <span>Model</span>
              <select value={id ?? ""} onChange={(event) => setQuery({ model: event.currentTarget.value })}>
                {known.every((model) => model.id !== id) && <option value={id ?? ""}>{id ?? "…"}</option>}
                {known.map((model) => (
                  <option key={model.id} value={model.id}>
                    {versionText(model)}
                  </option>
                ))}
              </select>
            </label>
          )
        }
      </Loaded>
      {id !== null && (
        <Loaded of={of} what="builds">
          {(builds) =>
            builds.length === 0 ? (
              <Empty title="No builds of this model yet.">
                <p>
                  <a href={link.scheme(id)}>Choose what to train</a>, and build it from there.
                </p>
              </Empty>
            ) : (
              <>
                <Table model={id} of={matrixOf(builds, furtherTargets())} isWhole={more === null} onBuilt={of.reload} />
                <FurtherTargets built={builds.map(({ target }) => target)} />
              </>
            )
          }
        </Loaded>
      )}
      <More more={more} />
    </Section>
  );
}

interface TableProps {
  readonly model: string;
  readonly of: Matrix;
  /** False while older builds are not shown: what seems to be missing may be among them. */
  readonly isWhole: boolean;
  readonly onBuilt: () => void;
}

function Table({ model, of, isWhole, onBuilt }: TableProps) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const [asked, setAsked] = useState<readonly Missing[] | "told" | null>(null);
  const close = () => setAsked(null);
  const isAsking = askingOf(model)?.busy === true;
  const all = isWhole ? allMissing(of.rows, of.targets) : [];
  const build = async (like: Build, target: string) => {
    setBusy(true);
    setProblem(null);
    try {
      await post<Build>("/builds", orderLike(like, target));
    } catch (error) {
      setProblem(asProblem(error));
    }
    setBusy(false);
    onBuilt();
  };
  return (
    <Needs scope="builds:write" inline>
      {problem && <ProblemBox problem={problem} />}
      {asked === "told" ? (
        <TellingDialog model={model} onClose={close} />
      ) : asked ? (
        <MissingDialog model={model} missing={asked} onClose={close} onAsked={onBuilt} />
      ) : (
        <AskedLine model={model} onShow={() => setAsked("told")} />
      )}
      {of.rows.length > 1 && all.length > 1 && (
        <p>
          <button type="button" class="button" disabled={isAsking} onClick={() => setAsked(all)}>
            Build all {all.length} missing …
          </button>
        </p>
      )}
      <TableFrame label="Schemes by targets">
        <table class="matrix">
          <thead>
            <tr>
              <th scope="col">Scheme</th>
              {of.targets.map((target) => (
                <th scope="col" key={target}>
                  {target}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {of.rows.map((row) => (
              <tr key={row.scheme}>
                <th scope="row">
                  {row.scheme}
                  <MissingOfRow
                    missing={all.filter(({ scheme }) => scheme === row.scheme)}
                    busy={isAsking}
                    onAsk={setAsked}
                  />
                </th>
                {of.targets.map((target) => (
                  <Cell key={target} row={row} target={target} isWhole={isWhole} busy={busy} onBuild={build} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </Needs>
  );
}

interface ActProps {
  readonly row: Row;
  readonly busy: boolean;
  readonly onBuild: (like: Build, target: string) => Promise<void>;
}

interface MissingOfRowProps {
  readonly missing: readonly Missing[];
  /** Some are being asked for. */
  readonly busy: boolean;
  readonly onAsk: (missing: readonly Missing[]) => void;
}

/** Builds all that a row lacks, where that is more than one. */
function MissingOfRow({ missing, busy, onAsk }: MissingOfRowProps) {
  if (missing.length < 2) return null;
  return (
    <button
      type="button"
      class="button"
      disabled={busy}
      title={missing.map(({ target }) => target).join(", ")}
      onClick={() => onAsk(missing)}
    >
      Build the {missing.length} missing …
    </button>
  );
}

function Cell(props: ActProps & { readonly target: string; readonly isWhole: boolean }) {
  const { row, target, isWhole, busy, onBuild } = props;
  const [newest, ...others] = row.cells.get(target) ?? [];
  const again = (like: Build, text: string) => (
    <button
      type="button"
      class="button"
      disabled={busy}
      aria-label={`${text} ${row.scheme} for ${target}`}
      onClick={() => void onBuild(like, target)}
    >
      {text}
    </button>
  );
  if (!newest) return <td>{isWhole ? again(row.newest, "Build") : "none among the builds that are shown"}</td>;
  const ended = newest.state === "failed" || newest.state === "cancelled";
  const { progress, summary } = newest;
  return (
    <td>
      <a href={link.build(newest.id)} aria-label={`${row.scheme} for ${target}: ${newest.state}`}>
        <StateBadge state={newest.state} />
      </a>
      {newest.state === "running" && progress && (
        <Progress label={`${row.scheme} for ${target}`} fraction={progress.fraction} text={progress.stage} />
      )}
      {newest.state === "queued" && newest.queue_position !== null && (
        <span class="faint"> position {newest.queue_position}</span>
      )}
      {summary?.predicted_peak_bytes && <p>{format.bytes(summary.predicted_peak_bytes)} at the peak</p>}
      {newest.failure && <p class="wrap">{newest.failure.detail}</p>}
      {others.length > 0 && <p class="faint">newest of {others.length + 1}</p>}
      {isOlder(newest, row) && <p class="faint">an older recipe than the row's newest</p>}
      <div class="actions">
        {ended && again(newest, "Retry")}
        {ended && (
          <a
            class="button"
            href={link.scheme(newest.model_id, { build: newest.id })}
            aria-label={`Edit ${row.scheme} for ${target}`}
          >
            Edit
          </a>
        )}
        {!ended && isOlder(newest, row) && again(row.newest, "Build")}
      </div>
    </td>
  );
}
