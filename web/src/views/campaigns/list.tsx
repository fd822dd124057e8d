/** All campaigns, newest first; with `?new=1` the form that starts one. */

import type { Campaign } from "../../api/types";
import { Ago } from "../../components/ago";
import { Command } from "../../components/copy";
import { Empty, Loaded, Page, Section, TableFrame } from "../../components/page";
import { curl } from "../../commands";
import { useList } from "../../data";
import * as format from "../../format";
import { useChanges } from "../../hooks";
import { whyNot } from "../../permission";
import { address, link } from "../../router";
import { Badge } from "../../components/tone_badge";
import { More } from "../tables";
import { CellBar } from "./bar";
import { NewCampaign } from "./new_campaign";
import { CAMPAIGN_TONES, countsText } from "./parts";
import "../../styles/campaigns.css";

/** Campaigns go on by their runs, of which the page is told at once. */
const EVERY_MS = 10_000;
const CHANGED_MS = 2000;

export function CampaignsView() {
  return address.value?.query.get("new") === "1" ? <NewCampaign /> : <List />;
}

function List() {
  const { of, more } = useList<Campaign>("/campaigns", EVERY_MS);
  useChanges("runs", of.reload, CHANGED_MS);
  const refused = whyNot("runs:write");
  return (
    <Page
      title="Campaigns"
      back={{ href: "#/runs", text: "Runs" }}
      command={curl("/campaigns")}
      aside={
        refused === null ? (
          <a class="button button-primary" href="#/campaigns?new=1">
            Start a campaign
          </a>
        ) : (
          <button type="button" class="button" disabled title={refused}>
            Start a campaign
          </button>
        )
      }
    >
      {refused !== null && <p class="needs-reason">{refused}</p>}
      <Section title="All campaigns" note="Each runs several builds on several devices, with several seeds.">
        <Loaded of={of} what="campaigns">
          {(campaigns) =>
            campaigns.length === 0 ? (
              <Empty title="No campaigns yet.">
                <p>
                  Start one when there are <a href="#/builds">builds</a> to compare on your{" "}
                  <a href="#/fleet">devices</a>, here or with a file:
                </p>
                <Command text="pock campaign create sweep.yaml" of="starting a campaign" />
              </Empty>
            ) : (
              <Table campaigns={campaigns} />
            )
          }
        </Loaded>
        <More more={more} />
      </Section>
    </Page>
  );
}

function Table({ campaigns }: { readonly campaigns: readonly Campaign[] }) {
  return (
    <TableFrame label="Campaigns">
      <table>
        <thead>
          <tr>
            <th scope="col">Campaign</th>
            <th scope="col">State</th>
            <th scope="col">Progress</th>
            <th scope="col" class="number">
              Builds
            </th>
            <th scope="col">Started</th>
            <th scope="col">Ended</th>
          </tr>
        </thead>
        <tbody>
          {campaigns.map((campaign) => (
            <tr key={campaign.id}>
              <td class="wrap">
                <a href={link.campaign(campaign.id)}>{campaign.name}</a>{" "}
                <span class="faint mono">{format.shortId(campaign.id)}</span>
              </td>
              <td class="campaign-state">
                <Badge tone={CAMPAIGN_TONES[campaign.state]} text={campaign.state} />
                {campaign.failure && <span class="under">{campaign.failure.detail}</span>}
              </td>
              <td>
                <CellBar of={campaign.cells} name={campaign.name} />
                <span class="under">{countsText(campaign.cells)}</span>
              </td>
              <td class="number">{campaign.build_ids.length}</td>
              <td>
                <Ago time={campaign.created_at} />
              </td>
              <td>{campaign.finished_at === null ? format.NOTHING : <Ago time={campaign.finished_at} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}
