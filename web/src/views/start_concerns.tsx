/** What needs somebody: one line for each reason, with its newest few and why. */

import type { Concern } from "../api/types";
import { Ago } from "../components/ago";
import { Section } from "../components/page";
import { curl } from "../commands";
import * as format from "../format";
import { to } from "../router";
import { viewOf } from "./table_of_views";

interface Told {
  /** "1 run failed in the last day" needs both forms. */
  readonly one: string;
  readonly many: string;
  readonly tone: "bad" | "waiting" | "quiet";
  /** The first part of the address of one of them. */
  readonly noun: string;
  /** Where all of them are listed. */
  readonly all: string;
}

const TOLD: Readonly<Record<Concern["concern"], Told>> = {
  device_quarantined: {
    one: "device is quarantined: its key was used twice",
    many: "devices are quarantined: their keys were used twice",
    tone: "bad",
    noun: "devices",
    all: "#/fleet?state=quarantined",
  },
  rollout_stopped: {
    one: "rollout has stopped: too many devices failed",
    many: "rollouts have stopped: too many devices failed",
    tone: "bad",
    noun: "rollouts",
    all: "#/rollouts",
  },
  run_failed: {
    one: "run failed in the last day",
    many: "runs failed in the last day",
    tone: "bad",
    noun: "runs",
    all: "#/runs?state=failed",
  },
  build_failed: {
    one: "build failed in the last day",
    many: "builds failed in the last day",
    tone: "bad",
    noun: "builds",
    all: "#/builds?state=failed",
  },
  regression: {
    one: "step has become slower in the last week",
    many: "steps have become slower in the last week",
    tone: "waiting",
    noun: "regressions",
    all: "#/regressions",
  },
  device_throttled: {
    one: "device is slowed down now",
    many: "devices are slowed down now",
    tone: "waiting",
    noun: "devices",
    all: "#/fleet",
  },
  run_throttled: {
    one: "run of the last day succeeded on a device that was slowed down",
    many: "runs of the last day succeeded on devices that were slowed down",
    tone: "waiting",
    noun: "runs",
    all: "#/runs",
  },
  device_offline: {
    one: "device has been offline for more than an hour",
    many: "devices have been offline for more than an hour",
    tone: "quiet",
    noun: "devices",
    all: "#/fleet?state=offline",
  },
};

export function Concerns({ concerns }: { readonly concerns: readonly Concern[] }) {
  return (
    <Section title="Needs you" command={curl("/overview", ".concerns")}>
      {concerns.length === 0 ? (
        <p class="note">Nothing. Failures, slow steps, and devices that are lost, hot or quarantined show up here.</p>
      ) : (
        <ul class="concerns">
          {concerns.map((concern) => (
            <OneConcern key={concern.concern} {...concern} />
          ))}
        </ul>
      )}
    </Section>
  );
}

function OneConcern({ concern, count, items }: Concern) {
  const { one, many, tone, noun, all } = TOLD[concern];
  const more = count - items.length;
  return (
    <li class={`concern concern-${tone}`}>
      <h3>
        {format.count(count)} {count === 1 ? one : many}
      </h3>
      <ul>
        {items.map(({ id, name, detail, at }) => (
          <li key={id}>
            <Named path={[noun, id]} name={name} />
            {detail && <span class="concern-detail">{detail}</span>}
            <span class="faint nowrap">
              <Ago time={at} />
            </span>
          </li>
        ))}
        {more > 0 && (
          <li>
            <a href={all}>and {format.count(more)} more</a>
          </li>
        )}
      </ul>
    </li>
  );
}

/** A link where the page has a view of it. */
function Named({ path, name }: { readonly path: readonly string[]; readonly name: string }) {
  return viewOf(path) ? <a href={to(path)}>{name}</a> : <strong>{name}</strong>;
}
