/** The tables of builds and runs, used by every view that lists some. */

import type { Build, Run } from "../api/types";
import { Ago } from "../components/ago";
import { Progress, RunState, StateBadge } from "../components/badge";
import { TableFrame } from "../components/page";
import { Took } from "../components/took";
import * as format from "../format";
import { runText } from "../names";
import { link } from "../router";

export function BuildTable({ builds, label }: { readonly builds: readonly Build[]; readonly label: string }) {
  return (
    <TableFrame label={label}>
      <table>
        <thead>
          <tr>
            <th scope="col">Build</th>
            <th scope="col">Target</th>
            <th scope="col">State</th>
            <th scope="col">Created</th>
            <th scope="col" class="number">
              Took
            </th>
          </tr>
        </thead>
        <tbody>
          {builds.map((build) => (
            <tr key={build.id}>
              <td>
                <a href={link.build(build.id)}>{build.name || build.model_name}</a>{" "}
                <span class="faint mono">{format.shortId(build.id)}</span>
              </td>
              <td>{build.target}</td>
              <td>
                <StateBadge state={build.state} />
                {build.state === "running" && build.progress && (
                  <Progress
                    label={`Progress of ${build.name || build.model_name}`}
                    fraction={build.progress.fraction}
                    text={build.progress.stage}
                  />
                )}
                {build.state === "queued" && build.queue_position !== null && (
                  <span class="faint"> position {build.queue_position}</span>
                )}
              </td>
              <td>
                <Ago time={build.created_at} />
              </td>
              <td class="number">
                <Took start={build.started_at} end={build.finished_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

/** "2.30 → 0.41" of a finished training run, or the latest loss of one that goes on. */
function lossText(run: Run): string {
  const losses = run.report?.train?.loss;
  if (losses && losses.length > 1) return `${format.loss(losses[0])} → ${format.loss(losses.at(-1))}`;
  return format.loss(run.progress?.loss);
}

function accuracyText(run: Run): string {
  const before = run.report?.eval_before?.accuracy;
  const after = run.report?.eval_after?.accuracy;
  return (before ?? after ?? null) === null ? format.NOTHING : `${format.percent(before)} → ${format.percent(after)}`;
}

interface RunTableProps {
  readonly runs: readonly Run[];
  readonly label: string;
  /** Where runs can be marked: which are, and what a mark does. */
  readonly marks?: { readonly ids: readonly string[]; readonly toggle: (id: string) => void };
}

export function RunTable({ runs, label, marks }: RunTableProps) {
  return (
    <TableFrame label={label}>
      <table>
        <thead>
          <tr>
            {marks && (
              <th scope="col">
                <span class="visually-hidden">Mark</span>
              </th>
            )}
            <th scope="col">Run</th>
            <th scope="col">Device</th>
            <th scope="col">State</th>
            <th scope="col" class="number">
              Step median
            </th>
            <th scope="col" class="number">
              Loss
            </th>
            <th scope="col" class="number">
              Accuracy
            </th>
            <th scope="col">Created</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.id}>
              {marks && (
                <td>
                  <input
                    type="checkbox"
                    aria-label={`Mark ${runText(run)} on ${run.device_name}, ${format.shortId(run.id)}`}
                    checked={marks.ids.includes(run.id)}
                    onChange={() => marks.toggle(run.id)}
                  />
                </td>
              )}
              <td>
                <a href={link.run(run.id)}>{runText(run)}</a> <span class="faint mono">{format.shortId(run.id)}</span>
              </td>
              <td>
                <a href={link.device(run.device_id)}>{run.device_name}</a> <span class="faint">{run.target}</span>
              </td>
              <td>
                <RunState run={run} />
                {run.state === "running" && run.progress && (
                  <Progress
                    label={`Progress of run ${format.shortId(run.id)}`}
                    fraction={run.progress.step / Math.max(1, run.progress.steps)}
                    text={`${run.progress.step} / ${run.progress.steps}`}
                  />
                )}
              </td>
              <td class="number">{format.milliseconds(run.report?.train?.step_ms?.median)}</td>
              <td class="number">{lossText(run)}</td>
              <td class="number">{accuracyText(run)}</td>
              <td>
                <Ago time={run.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

export function More({ more }: { readonly more: (() => void) | null }) {
  if (!more) return null;
  return (
    <button type="button" class="button" onClick={more}>
      Show more
    </button>
  );
}
