/** Runs to choose from: the service searches all of them by a part of their names, their devices or their ids. */

import { useState } from "preact/hooks";
import type { Run } from "../../api/types";
import { StateBadge } from "../../components/badge";
import { Empty, Loaded } from "../../components/page";
import { SELDOM_MS, useList } from "../../data";
import * as format from "../../format";
import { useSettled } from "../../hooks";
import { runText } from "../../names";
import { More } from "../tables";
import { MOST_RUNS } from "./rows";

const SHOWN = 20;

interface FindProps {
  readonly chosen: readonly string[];
  readonly onToggle: (id: string) => void;
}

export function Find({ chosen, onToggle }: FindProps) {
  const [text, setText] = useState("");
  const sought = useSettled(text).trim();
  const path = sought ? `/runs?text=${encodeURIComponent(sought)}` : "/runs";
  const { of, more } = useList<Run>(path, SELDOM_MS, SHOWN);
  return (
    <>
      <label class="field">
        <span>Search runs</span>
        <input
          type="search"
          value={text}
          maxLength={190}
          placeholder="a part of the name, the device or the id"
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <Loaded of={of} what="runs">
        {(runs) =>
          runs.length === 0 ? (
            <Empty title={sought ? "No run has all these words." : "Nothing has run yet."} />
          ) : (
            <ul class="found-runs">
              {runs.map((run) => (
                <li key={run.id}>
                  <label class="check">
                    <input
                      type="checkbox"
                      checked={chosen.includes(run.id)}
                      disabled={!chosen.includes(run.id) && chosen.length >= MOST_RUNS}
                      onChange={() => onToggle(run.id)}
                    />
                    {runText(run)} on {run.device_name} <span class="faint mono">{format.shortId(run.id)}</span>
                  </label>{" "}
                  <StateBadge state={run.state} />
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
      <More more={more} />
    </>
  );
}
