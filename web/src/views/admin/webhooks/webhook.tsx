/** One webhook with what was, or is to be, sent to it. */

import type { Delivery, Webhook } from "../../../api/types";
import { curl } from "../../../commands";
import { Ago, Until } from "../../../components/ago";
import { Facts } from "../../../components/figures";
import { Empty, isSettled, Loaded, Section, TableFrame } from "../../../components/page";
import { useList, useResource } from "../../../data";
import * as format from "../../../format";
import { whyNot } from "../../../permission";
import { address, go, setQuery, useKept } from "../../../router";
import { More } from "../../tables";
import type { ViewProps } from "../../table_of_views";
import { Badge, type Tone } from "../../../components/tone_badge";
import { AdminPage } from "../frame";
import { webhookName } from "./parts";
import { WebhookActions, WebhookState } from "./webhooks";

const STATES: readonly Delivery["state"][] = ["pending", "delivered", "failed"];
const TONES: Readonly<Record<Delivery["state"], Tone>> = { pending: "waiting", delivered: "good", failed: "bad" };

export function WebhookView({ id }: ViewProps) {
  const path = `/webhooks/${encodeURIComponent(id)}`;
  const allowed = whyNot("read") === null;
  const webhook = useResource<Webhook>(allowed ? path : null, 10_000);
  const asked = address.value?.query.get("state") ?? "";
  const state = STATES.find((one) => one === asked);
  const sent = `${path}/deliveries${state ? `?state=${state}` : ""}`;
  const { of, more } = useList<Delivery>(allowed ? sent : null, 10_000);
  return (
    <AdminPage part="Webhooks" command={curl(path)}>
      <p class="back">
        <a href="#/admin/webhooks">← All webhooks</a>
      </p>
      <Loaded of={webhook} what="the webhook">
        {(known) => (
          <Section title={webhookName(known)} command={curl(path)}>
            <Facts
              items={[
                ["Address", known.url],
                ["Is told of", known.events.join(", ")],
                ["State", <WebhookState of={known} />],
                ["Made", <Ago time={known.created_at} />],
              ]}
            />
            <p class="actions webhook-actions">
              <WebhookActions of={known} onChanged={webhook.reload} onDeleted={() => go("#/admin/webhooks")} />
            </p>
          </Section>
        )}
      </Loaded>
      {isSettled(webhook) && (
        <Section title="Deliveries" note="Newest first; what ended 30 days ago is forgotten." command={curl(sent)}>
          <label class="field field-state">
            <span>State</span>
            <select value={state ?? ""} onChange={(event) => setQuery({ state: event.currentTarget.value || null })}>
              <option value="">any</option>
              {STATES.map((one) => (
                <option key={one} value={one}>
                  {one}
                </option>
              ))}
            </select>
          </label>
          <Loaded of={of} what="deliveries">
            {(deliveries) =>
              deliveries.length === 0 ? (
                <Empty title={state ? `No delivery is ${state}.` : "Nothing was to be told yet."} />
              ) : (
                <DeliveryTable deliveries={deliveries} />
              )
            }
          </Loaded>
          <More more={more} />
        </Section>
      )}
    </AdminPage>
  );
}

function DeliveryTable({ deliveries }: { readonly deliveries: readonly Delivery[] }) {
  return (
    <TableFrame label="Deliveries">
      <table>
        <thead>
          <tr>
            <th scope="col">Event</th>
            <th scope="col">When</th>
            <th scope="col">State</th>
            <th scope="col" class="number">
              Tries
            </th>
            <th scope="col">Last answer</th>
            <th scope="col">Next try</th>
            <th scope="col">Message</th>
          </tr>
        </thead>
        <tbody>
          {deliveries.map((delivery) => (
            <tr key={delivery.id}>
              <td>{delivery.event}</td>
              <td>
                <Ago time={delivery.created_at} />
              </td>
              <td>
                <Badge tone={TONES[delivery.state]} text={delivery.state} />
              </td>
              <td class="number">{delivery.attempts}</td>
              <td class="wrap">{answerText(delivery)}</td>
              <td>{delivery.next_at ? <Until time={delivery.next_at} /> : format.NOTHING}</td>
              <td>
                <Message of={delivery} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

/** Why the last try failed, or with what it was answered. */
function answerText({ problem, status }: Delivery): string {
  return problem ?? (status === null ? format.NOTHING : `HTTP ${status}`);
}

function Message({ of }: { readonly of: Delivery }) {
  const [open, setOpen] = useKept(`delivery ${of.id}`, false);
  return (
    <details class="audit-changes" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>show</summary>
      <pre class="block log" tabIndex={0} aria-label={`Message of ${of.event}`}>
        {JSON.stringify(of.payload, null, 2)}
      </pre>
    </details>
  );
}
