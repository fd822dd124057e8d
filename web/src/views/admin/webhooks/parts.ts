/** What webhooks are told, and how they stand, in words. */

import type { Webhook, WebhookEvent } from "../../../api/types";
import type { Tone } from "../../../components/tone_badge";

export const EVENTS: Readonly<Record<WebhookEvent, string>> = {
  "run.failed": "A run is over, and failed.",
  "benchmark.finished": "A benchmark is over, well or not.",
  "regression.found": "A step has become slower.",
  "campaign.finished": "All runs of a campaign are over, or it was stopped.",
};

/** What people call a webhook. */
export function webhookName({ description, url }: Webhook): string {
  return description ?? url;
}

export function webhookState({ enabled, failing_since }: Webhook): readonly [tone: Tone, text: string] {
  if (!enabled) return ["quiet", "paused"];
  return failing_since === null ? ["good", "enabled"] : ["bad", "failing"];
}
