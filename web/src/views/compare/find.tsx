/** Runs to choose from, by a part of their names, their devices or their ids. */

import { useState } from "preact/hooks";
import type { Run } from "../../api/types";
import { StateBadge } from "../../components/badge";
import { Loaded } from "../../components/page";
import { SELDOM_MS, useList } from "../../data";
import * as format from "../../format";
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
  const { of, more } = useList<Run>("/runs", SELDOM_MS);
  const words = text.toLowerCase().split(/\s+/);
  const fits = (run: Run) => {
    const all = `${runText(run)} ${run.device_name} ${run.id} ${run.state}`.toLowerCase();
    return words.every((word) => all.includes(word));
  };
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
        {(runs) => {
          const found = runs.filter(fits);
          return (
            <>
              <ul class="found-runs">
                {found.slice(0, SHOWN).map((run) => (
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
              <p class="note" role="status">
                {Math.min(SHOWN, found.length)} of {found.length} that fit, among the latest {runs.length} runs.
              </p>
            </>
          );
        }}
      </Loaded>
      <More more={more} />
    </>
  );
}
