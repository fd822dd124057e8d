/** Of which longer work a run is a part, with the way to where the page shows that. */

import type { Run } from "../../api/types";
import { link } from "../../router";

type Kind = NonNullable<Run["longer_work"]>["kind"];

/** Federations are in the command line alone. */
const PLACES: Readonly<Record<Kind, (id: string, run: Run) => string | null>> = {
  campaign: (id) => link.campaign(id),
  tuning: () => "#/admin/tuning",
  benchmark: (_, run) => link.device(run.device_id),
  federation: () => null,
};

const BEFORE: Readonly<Record<Kind, string>> = {
  campaign: "Part of campaign",
  tuning: "Part of the tuning of",
  benchmark: "Part of the benchmark of",
  federation: "Part of federation",
};

export function PartOf({ run }: { readonly run: Run }) {
  const work = run.longer_work;
  if (!work) return <>Part of something longer that was deleted.</>;
  const place = PLACES[work.kind](work.id, run);
  return (
    <>
      {BEFORE[work.kind]} {place === null ? <strong>{work.name}</strong> : <a href={place}>{work.name}</a>}
    </>
  );
}
