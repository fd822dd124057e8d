/** What the workspace has and may have, what is stored, what waits, and what build workers do. */

import type { Usage } from "../../api/types";
import { curl } from "../../commands";
import { Ago } from "../../components/ago";
import { type Figure, Figures } from "../../components/figures";
import { Loaded, Section, TableFrame } from "../../components/page";
import { Took } from "../../components/took";
import { useResource } from "../../data";
import * as format from "../../format";
import { whyNot } from "../../permission";
import { link } from "../../router";
import { Badge } from "../../components/tone_badge";
import { AdminPage } from "./frame";

const EVERY_MS = 15_000;

export function UsageView() {
  const usage = useResource<Usage>(whyNot("read") === null ? "/usage" : null, EVERY_MS);
  return (
    <AdminPage part="Usage" command={curl("/usage")}>
      <Loaded of={usage} what="what is used">
        {(known) => (
          <>
            <Queues usage={known} />
            <Workers usage={known} />
            <Section title="Storage">
              <Figures items={storageFigures(known)} />
            </Section>
            <Quotas usage={known} />
          </>
        )}
      </Loaded>
    </AdminPage>
  );
}

type Kind = Usage["queues"][number]["kind"];

const JOBS: Readonly<Record<Kind, readonly [name: string, by: string]>> = {
  build: ["Builds", "a build worker"],
  search: ["Searches", "a build worker"],
  trials: ["Kernel trials", "a build worker"],
  run: ["Runs", "their device"],
};

function Queues({ usage }: { readonly usage: Usage }) {
  return (
    <Section title="Queues" command={curl("/usage", ".queues")}>
      <TableFrame label="Queues">
        <table>
          <thead>
            <tr>
              <th scope="col">Jobs</th>
              <th scope="col">Done by</th>
              <th scope="col" class="number">
                Waiting
              </th>
              <th scope="col">Oldest</th>
              <th scope="col" class="number">
                At work
              </th>
              <th scope="col" class="number">
                Of these silent
              </th>
            </tr>
          </thead>
          <tbody>
            {usage.queues.map(({ kind, waiting, working, silent, oldest_at }) => (
              <tr key={kind}>
                <td>{JOBS[kind][0]}</td>
                <td>{JOBS[kind][1]}</td>
                <td class="number">{format.count(waiting)}</td>
                <td>{oldest_at ? <Ago time={oldest_at} /> : format.NOTHING}</td>
                <td class="number">{format.count(working)}</td>
                <td class="number">{silent > 0 ? <strong>{format.count(silent)}</strong> : 0}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </Section>
  );
}

const RUNNERS: Readonly<Record<Usage["runner"], string>> = {
  inprocess: "The service builds by itself.",
  celery: "Build workers take what waits by way of a broker.",
  none: "This service has no build worker: nothing is built.",
};

function Workers({ usage }: { readonly usage: Usage }) {
  const note = `${RUNNERS[usage.runner]} At most ${usage.builds_at_once} builds of a workspace are at work at once.`;
  return (
    <Section title="Build workers" note={note} command={curl("/usage", ".workers")}>
      {usage.workers.length === 0 ? (
        <p class="faint">No worker is at work for this workspace.</p>
      ) : (
        <TableFrame label="Build workers">
          <table>
            <thead>
              <tr>
                <th scope="col">Works on</th>
                <th scope="col">Kind</th>
                <th scope="col">Since</th>
                <th scope="col" class="number">
                  For
                </th>
                <th scope="col">Worker</th>
              </tr>
            </thead>
            <tbody>
              {usage.workers.map(({ id, kind, name, started_at, silent }) => (
                <tr key={id}>
                  <td class="wrap">{kind === "build" ? <a href={link.build(id)}>{name}</a> : name}</td>
                  <td>{JOBS[kind][0]}</td>
                  <td>
                    <Ago time={started_at} />
                  </td>
                  <td class="number">
                    <Took start={started_at} end={null} />
                  </td>
                  <td>
                    <Badge tone={silent ? "bad" : "active"} text={silent ? "silent: another takes over" : "working"} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableFrame>
      )}
    </Section>
  );
}

function storageFigures({ storage, quotas }: Usage): Figure[] {
  const limit = quotas.find(({ quota }) => quota === "bytes")?.limit;
  const of = (name: string) => curl("/usage", `.storage.${name}`);
  return [
    {
      label: "Stored",
      value: format.bytes(storage.stored_bytes),
      hint: `of ${format.bytes(limit)}, in ${format.count(storage.blobs)} files`,
      command: of("stored_bytes"),
    },
    {
      label: "Announced",
      value: format.bytes(storage.announced_bytes),
      hint: "by uploads that are not complete",
      command: of("announced_bytes"),
    },
    {
      label: "Damaged files",
      value: format.count(storage.damaged_blobs),
      hint: storage.damaged_blobs > 0 ? "upload or build the same once more" : "none is missing or changed",
      command: of("damaged_blobs"),
    },
  ];
}

const MUCH = 0.8;

function Quotas({ usage }: { readonly usage: Usage }) {
  return (
    <Section
      title="Quotas"
      note="What this workspace has of what it may have. The operator sets limits for all workspaces, or for this one."
      command={curl("/usage", ".quotas")}
    >
      <TableFrame label="Quotas">
        <table>
          <thead>
            <tr>
              <th scope="col">What</th>
              <th scope="col" class="number">
                Used
              </th>
              <th scope="col" class="number">
                Limit
              </th>
              <th scope="col">Share</th>
              <th scope="col">What helps</th>
            </tr>
          </thead>
          <tbody>
            {usage.quotas.map((one) => (
              <QuotaRow key={one.quota} of={one} />
            ))}
          </tbody>
        </table>
      </TableFrame>
    </Section>
  );
}

function QuotaRow({ of }: { readonly of: Usage["quotas"][number] }) {
  const text = of.quota === "bytes" ? format.bytes : format.count;
  const share = of.limit > 0 ? of.used / of.limit : 1;
  return (
    <tr>
      <td>{of.noun}</td>
      <td class="number">{text(of.used)}</td>
      <td class="number">
        {text(of.limit)}
        {of.own && <span class="faint"> its own</span>}
      </td>
      <td>
        <span class="share">
          <progress max={1} value={Math.min(1, share)} aria-label={`Share of ${of.noun}`} />
          {format.percent(share)}
        </span>
      </td>
      <td class="wrap">{share >= MUCH ? <strong>{of.way_out}</strong> : <span class="faint">{of.way_out}</span>}</td>
    </tr>
  );
}
