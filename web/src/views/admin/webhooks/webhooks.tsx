/** Webhooks: addresses outside that are told of events. */

import { patch, send } from "../../../api/client";
import type { Webhook } from "../../../api/types";
import { curl } from "../../../commands";
import { Ago } from "../../../components/ago";
import { ConfirmButton } from "../../../components/confirm_button";
import { Empty, Loaded, Section, TableFrame } from "../../../components/page";
import { useList } from "../../../data";
import { whyNot } from "../../../permission";
import { to } from "../../../router";
import { More } from "../../tables";
import { Badge } from "../../../components/tone_badge";
import { AdminPage } from "../frame";
import { NewWebhook } from "./new_webhook";
import { webhookName, webhookState } from "./parts";

export function WebhooksView() {
  const { of, more } = useList<Webhook>(whyNot("read") === null ? "/webhooks" : null, 10_000);
  return (
    <AdminPage part="Webhooks" command={curl("/webhooks")}>
      <NewWebhook onMade={of.reload} />
      <Section title="All webhooks" command={curl("/webhooks")}>
        <Loaded of={of} what="webhooks">
          {(webhooks) =>
            webhooks.length === 0 ? (
              <Empty title="No address is told of anything." />
            ) : (
              <WebhookTable webhooks={webhooks} reload={of.reload} />
            )
          }
        </Loaded>
        <More more={more} />
      </Section>
    </AdminPage>
  );
}

function WebhookTable({ webhooks, reload }: { readonly webhooks: readonly Webhook[]; readonly reload: () => void }) {
  return (
    <TableFrame label="Webhooks">
      <table>
        <thead>
          <tr>
            <th scope="col">Webhook</th>
            <th scope="col">Is told of</th>
            <th scope="col">State</th>
            <th scope="col">Made</th>
            <th scope="col">
              <span class="visually-hidden">Change</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {webhooks.map((webhook) => (
            <tr key={webhook.id}>
              <td class="wrap">
                <a href={to(["admin", "webhooks", webhook.id])}>{webhookName(webhook)}</a>
                {webhook.description !== null && <span class="under">{webhook.url}</span>}
              </td>
              <td>{webhook.events.join(", ")}</td>
              <td class="wrap">
                <WebhookState of={webhook} />
              </td>
              <td>
                <Ago time={webhook.created_at} />
              </td>
              <td class="row-action">
                <WebhookActions of={webhook} quiet onChanged={reload} onDeleted={reload} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

export function WebhookState({ of }: { readonly of: Webhook }) {
  const [tone, text] = webhookState(of);
  return (
    <>
      <Badge tone={tone} text={text} />
      {of.failing_since && (
        <span class="faint">
          {" "}
          since <Ago time={of.failing_since} />
        </span>
      )}
      {of.disabled_reason && <span class="under">{of.disabled_reason}</span>}
    </>
  );
}

interface ActionsProps {
  readonly of: Webhook;
  readonly quiet?: boolean;
  readonly onChanged: () => void;
  readonly onDeleted: () => void;
}

export function WebhookActions({ of, quiet, onChanged, onDeleted }: ActionsProps) {
  const name = webhookName(of);
  const why = whyNot("devices:admin");
  const [verb, doing, warning] = of.enabled
    ? ["Pause", "Pausing", "It is told of nothing until it goes on; what is not sent yet is given up."]
    : ["Resume", "Resuming", "It is told of events again from now on. What was given up is not sent again."];
  return (
    <span class="row-actions">
      <ConfirmButton
        quiet={quiet}
        verb={verb}
        doing={doing}
        what={name}
        warning={warning}
        keep="Leave it"
        act={() => patch<Webhook>(`/webhooks/${of.id}`, { enabled: !of.enabled })}
        why={why}
        onDone={onChanged}
      />
      <ConfirmButton
        quiet={quiet}
        verb="Delete"
        doing="Deleting"
        what={name}
        warning="What is not sent yet is not sent, and its deliveries are forgotten."
        act={() => send(`/webhooks/${of.id}`, { method: "DELETE" })}
        why={why}
        onDone={onDeleted}
      />
    </span>
  );
}
