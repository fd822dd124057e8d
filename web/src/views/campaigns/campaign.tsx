/** One campaign: how far it is, what to do with it, its cells as a grid, and what was measured. */

import type { Campaign, CampaignResults, Dataset } from "../../api/types";
import { Ago, Until } from "../../components/ago";
import { LiveBadge } from "../../components/badge";
import { Deeds } from "../../components/deeds";
import { DeleteButton } from "../../components/delete_button";
import { type Figure, Facts, Figures } from "../../components/figures";
import { Later } from "../../components/later";
import { Loaded, Page, ProblemBox, Section } from "../../components/page";
import { Took } from "../../components/took";
import { curl } from "../../commands";
import { useResource } from "../../data";
import * as format from "../../format";
import { useChanges, useGathered, useStream } from "../../hooks";
import { inTurn } from "../../turns";
import { versionText } from "../../names";
import { whyNot } from "../../permission";
import { address, go, link } from "../../router";
import { Badge } from "../../components/tone_badge";
import type { ViewProps } from "../table_of_views";
import { CellBar } from "./bar";
import { useCells } from "./cells";
import { namesInOrder } from "./grid";
import { GridSection } from "./grid_table";
import { seedsText } from "./order";
import { CAMPAIGN_TONES, DEEDS, ENDED, STATE_HINTS } from "./parts";
import { ResultsSection } from "./results";
import "../../styles/campaigns.css";

/** At most so often is it read again, and the more seldom the larger it is. */
const CHANGED_MS = 2000;
const EACH_CELL_MS = 2;
/** In case a change was told to nobody. */
const SELDOM_MS = 30_000;

inTurn(namesInOrder);

export function CampaignView({ id }: ViewProps) {
  const path = `/campaigns/${encodeURIComponent(id)}`;
  const campaign = useResource<Campaign>(path, SELDOM_MS);
  const results = useResource<CampaignResults>(`${path}/results?by=device`, SELDOM_MS);
  const totals = useResource<CampaignResults>(`${path}/results?by=target`, SELDOM_MS);
  const by = address.value?.query.get("by") === "device" ? "device" : "target";
  const cells = useCells(path);
  const open = campaign.data !== null && !ENDED.includes(campaign.data.state);
  const reload = () => {
    campaign.reload();
    results.reload();
    totals.reload();
    cells.reload();
  };
  const news = useGathered<null>(reload, CHANGED_MS + EACH_CELL_MS * (campaign.data?.cells.total ?? 0));
  const stream = useStream(open ? `${path}/events` : null, () => news.add([null]));
  // A cell that begins is told by its run alone.
  useChanges(
    open ? "runs" : null,
    (changes) => {
      if (changes === null || changes.more || changes.changed.length > 0) news.add([null]);
    },
    CHANGED_MS,
  );
  const known = campaign.data;
  return (
    <Page
      title={known?.name ?? "Campaign"}
      {...(known && { kind: "Campaign" })}
      back={{ href: "#/campaigns", text: "All campaigns" }}
      command={curl(path)}
      aside={open && <LiveBadge connected={stream.connected} />}
    >
      <Loaded of={campaign} what="the campaign">
        {(data) => (
          <>
            <Head of={data} path={path} changed={reload} />
            {cells.problem && <ProblemBox problem={cells.problem} retry={cells.reload} />}
            <Later>
              <GridSection campaign={data} path={path} cells={cells} results={results.data?.rows ?? []} />
            </Later>
            {(cells.cells.length > 0 || cells.complete || cells.problem) && (
              <>
                <Later>
                  <ResultsSection
                    campaign={data}
                    path={path}
                    cells={cells.cells}
                    by={by}
                    results={by === "device" ? results : totals}
                  />
                </Later>
                <Later>
                  <Asked of={data} />
                </Later>
              </>
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

interface HeadProps {
  readonly of: Campaign;
  readonly path: string;
  readonly changed: () => void;
}

function Head({ of, path, changed }: HeadProps) {
  const refused = whyNot("runs:write");
  const over = ENDED.includes(of.state);
  return (
    <Section title="How it stands" command={curl(path, "{state, cells, failure}")}>
      {of.failure && (
        <div class="problem">
          <p>
            <strong>{of.state === "stopping" ? "It is being stopped." : "It did not succeed."}</strong>{" "}
            <span class="code">failure {of.failure.code}</span>
          </p>
          <p>{of.failure.detail}</p>
        </div>
      )}
      {of.missing_targets.length > 0 && (
        <p class="needs-reason">No chosen device is of {of.missing_targets.join(", ")}: builds for it are not run.</p>
      )}
      <CellBar of={of.cells} name={of.name} />
      <Figures items={figures(of, path)} />
      <div class="actions campaign-actions">
        <Deeds deeds={DEEDS} state={of.state} what={of.name} path={path} refused={refused} onDone={changed} />
        <DeleteButton
          what={of.name}
          warning="The campaign and its table are forgotten. Its runs stay."
          path={path}
          why={refused ?? (over ? null : `It is ${of.state}; only one that is over can be deleted.`)}
          onDeleted={() => go("#/campaigns")}
        />
      </div>
      {refused !== null && <p class="needs-reason">{refused}</p>}
    </Section>
  );
}

function figures(of: Campaign, path: string): Figure[] {
  const { cells } = of;
  return [
    {
      label: "State",
      value: <Badge tone={CAMPAIGN_TONES[of.state]} text={of.state} />,
      hint: STATE_HINTS[of.state] ?? canaryText(of),
      command: curl(path, ".state"),
    },
    {
      label: "Succeeded",
      value: format.count(cells.succeeded),
      hint: `of ${format.count(cells.total)} runs`,
      command: curl(path, ".cells.succeeded"),
    },
    {
      label: "Failed",
      value: format.count(cells.failed),
      hint: stopText(of),
      command: curl(path, ".cells.failed"),
    },
    {
      label: "Not over",
      value: format.count(cells.running + cells.pending),
      hint: `${format.count(cells.running)} running, ${format.count(cells.pending)} to come`,
      command: curl(path, ".cells.running + .cells.pending"),
    },
    {
      label: "Never ran, or cancelled",
      value: format.count(cells.skipped + cells.cancelled),
      hint: `${format.count(cells.skipped)} skipped, ${format.count(cells.cancelled)} cancelled`,
      command: curl(path, ".cells.skipped + .cells.cancelled"),
    },
    {
      label: of.finished_at === null ? "Runs for" : "Took",
      value: <Took start={of.created_at} end={of.finished_at} />,
      hint: (
        <>
          started <Ago time={of.created_at} />
          {of.finished_at !== null && (
            <>
              , ended <Ago time={of.finished_at} />
            </>
          )}
          {of.finished_at === null && of.ends_at !== null && (
            <>
              , at most to <Until time={of.ends_at} />
            </>
          )}
        </>
      ),
    },
  ];
}

function canaryText({ order, canary_ended_at: ended, finished_at: over }: Campaign): string | undefined {
  if (!order.canary || ended !== null || over !== null) return undefined;
  const { devices } = order.canary;
  return devices === 1 ? "1 canary goes first" : `${devices} canaries go first`;
}

function stopText({ order }: Campaign): string {
  const { stop } = order;
  if (stop?.failed) return `it stops at ${format.count(stop.failed)}`;
  if (stop?.failed_share) return `it stops above ${format.percent(stop.failed_share)} of all`;
  return "it goes on, however many fail";
}

function Asked({ of: { order } }: { readonly of: Campaign }) {
  const { dataset_id: data, eval_dataset_id: evaluation, seeds = [] } = order;
  const chosen = order.device_ids?.length ?? 0;
  const retries = Object.entries(order.retries ?? { transient: 3 }).filter(([, tries]) => tries > 0);
  return (
    <Section title="What was asked for">
      <Facts
        items={[
          ["Devices", <code key="on">{chosen > 0 ? `${format.count(chosen)} of ${order.on}` : order.on}</code>],
          ["Each run", `${order.entry ?? "train"}, ${format.count(order.steps)} steps`],
          ["Data", <DataName key="data" id={data} local={order.dataset_name} />],
          ["Evaluation data", <DataName key="eval" id={evaluation} local={order.eval_dataset_name} />],
          ["Seeds", seedsText(seeds)],
          ["Canaries", order.canary ? `${order.canary.devices}, then ${order.canary.wait_seconds ?? 0} s` : "none"],
          [
            "Tried again",
            retries.map(([kind, tries]) => `${kind.replaceAll("_", " ")} × ${tries}`).join(", ") || "never",
          ],
        ]}
      />
    </Section>
  );
}

/** Data of the service by name, or what each device keeps itself. */
function DataName({
  id,
  local,
}: {
  readonly id: string | null | undefined;
  readonly local: string | null | undefined;
}) {
  const of = useResource<Dataset>(id ? `/datasets/${id}` : null);
  if (local) return <>{local}, as each device keeps it</>;
  if (!id) return <>{format.NOTHING}</>;
  return <a href={link.dataset(id)}>{of.data ? versionText(of.data) : "a dataset"}</a>;
}
