/** The form that makes a webhook; its secret is told once. */

import { useState } from "preact/hooks";
import { post, type Problem } from "../../../api/client";
import type { WebhookCreated, WebhookEvent } from "../../../api/types";
import { curlPost } from "../../../commands";
import { ProblemBox, Section } from "../../../components/page";
import { ShownOnce } from "../../../components/shown_once";
import { asProblem } from "../../../data";
import { Needs } from "../../../permission";
import { EVENTS, webhookName } from "./parts";

const NAMES = Object.keys(EVENTS) as readonly WebhookEvent[];

export function NewWebhook({ onMade }: { readonly onMade: () => void }) {
  const [made, setMade] = useState<WebhookCreated | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [url, setUrl] = useState("");
  const [description, setDescription] = useState("");
  const [events, setEvents] = useState<readonly WebhookEvent[]>(["run.failed"]);
  const order = { url: url.trim(), events, description: description.trim() || null };
  const make = (event: Event) => {
    event.preventDefault();
    post<WebhookCreated>("/webhooks", order).then(
      (webhook) => {
        setMade(webhook);
        setProblem(null);
        setUrl("");
        setDescription("");
        onMade();
      },
      (error: unknown) => setProblem(asProblem(error)),
    );
  };
  return (
    <Section title="Make a webhook" command={curlPost("/webhooks", order)}>
      {made && (
        <ShownOnce
          what="secret"
          advice={`“${webhookName(made)}” verifies with it that messages are from this service (standardwebhooks.com). Copy it now.`}
          secret={made.secret}
          onKept={() => setMade(null)}
        />
      )}
      <Needs scope="devices:admin">
        <form onSubmit={make}>
          <div class="form-row">
            <label class="field">
              <span>Address</span>
              <input
                type="text"
                inputMode="url"
                required
                maxLength={2000}
                placeholder="https://example.com/hook"
                value={url}
                onInput={(event) => setUrl(event.currentTarget.value)}
              />
            </label>
            <label class="field">
              <span>Name, if it shall have one</span>
              <input
                type="text"
                maxLength={200}
                value={description}
                onInput={(event) => setDescription(event.currentTarget.value)}
              />
            </label>
          </div>
          <fieldset class="scope-list">
            <legend>What it is told of</legend>
            {NAMES.map((name) => (
              <label key={name} class="scope">
                <input
                  type="checkbox"
                  name={name}
                  checked={events.includes(name)}
                  onChange={({ currentTarget: { checked } }) =>
                    setEvents(checked ? [...events, name] : events.filter((other) => other !== name))
                  }
                />
                <span class="scope-name mono">{name}</span>
                <span>{EVENTS[name]}</span>
              </label>
            ))}
          </fieldset>
          {problem && <ProblemBox problem={problem} />}
          <div class="actions">
            <button class="button button-primary" disabled={events.length === 0}>
              Make the webhook
            </button>
            {events.length === 0 && <span class="faint">Choose at least one event.</span>}
          </div>
        </form>
      </Needs>
    </Section>
  );
}
