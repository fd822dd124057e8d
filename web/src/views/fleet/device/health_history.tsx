/** How hot a device became in each of its latest runs, and in which it throttled. */

import { useMemo } from "preact/hooks";
import type { Run } from "../../../api/types";
import { curl } from "../../../commands";
import { Ago } from "../../../components/ago";
import { Chart } from "../../../components/chart";
import { Section } from "../../../components/page";
import * as format from "../../../format";
import { runText } from "../../../names";
import { link } from "../../../router";
import { readings } from "./health";

const SHOWN = 5;

export function HealthHistory({ runs, id }: { readonly runs: readonly Run[]; readonly id: string }) {
  const found = useMemo(() => readings(runs), [runs]);
  const x = useMemo(() => found.map((_, index) => index + 1), [found]);
  const lines = useMemo(
    () => [
      {
        label: "Highest temperature",
        values: found.map(({ hottest }) => hottest),
        color: "series-2",
        style: "points" as const,
      },
    ],
    [found],
  );
  if (found.length === 0) return null;
  const throttled = found.filter((one) => one.throttled).reverse();
  return (
    <Section
      title="Health in its runs"
      command={curl(`/runs?device_id=${id}`, ".items[] | {created_at, health: .report.health}")}
    >
      {found.some(({ hottest }) => hottest !== null) && (
        <Chart
          description={`Highest temperature in each of its latest ${found.length} runs that told it, the oldest first.`}
          x={x}
          xLabel="Run"
          lines={lines}
          format={format.celsius}
          unit=" °C"
        />
      )}
      {throttled.length === 0 ? (
        <p class="note">It throttled in none of them.</p>
      ) : (
        <>
          <p>It throttled in {throttled.length} of them:</p>
          <ul>
            {throttled.slice(0, SHOWN).map(({ run, hottest }) => (
              <li key={run.id}>
                <a href={link.run(run.id)}>{runText(run)}</a> <Ago time={run.created_at} />
                {hottest !== null && `, up to ${format.celsius(hottest)}`}
              </li>
            ))}
          </ul>
          {throttled.length > SHOWN && <p class="note">And {throttled.length - SHOWN} before.</p>}
        </>
      )}
    </Section>
  );
}
