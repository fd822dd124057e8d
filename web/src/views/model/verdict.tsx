/** What the chosen scheme takes, against the device and against another scheme that was kept beside it. */

import type { About, Estimate } from "../../api/types";
import { ProblemBox, TableFrame } from "../../components/page";
import { WaitsNote } from "../../components/waits";
import * as format from "../../format";
import type { Estimated } from "../../scheme/estimate";
import { MemoryBar } from "../../scheme/memory_bar";

/** A scheme and what it takes. */
export interface Kept {
  readonly text: string;
  readonly estimate: Estimate;
}

interface VerdictProps {
  readonly estimated: Estimated;
  /** Shown while the estimate is planned. */
  readonly about: About | null;
  readonly budget: number | null;
  readonly other: Kept | null;
  readonly onKeep: (() => void) | null;
  readonly onTakeOther: (() => void) | null;
  readonly onForget: () => void;
  /** Why the text is not asked about at all. */
  readonly wrong: string | null;
}

const SHARE = 3 / 4;

export function Verdict({ estimated, about, budget, other, onKeep, onTakeOther, onForget, wrong }: VerdictProps) {
  const { estimate, problem, pending, took, waits } = estimated;
  const recipeIsWrong = problem?.failureCode === 3003 || wrong !== null;
  const soon = pending && wrong === null ? about : null;
  const takes = soon ?? estimate;
  return (
    <div class="verdict">
      <p class="verdict-state" role="status">
        {wrong !== null || recipeIsWrong
          ? "The recipe is wrong, so what you see is of the one before."
          : pending
            ? soon
              ? "About this; planning …"
              : "Planning …"
            : took !== null && `Planned in ${format.milliseconds(took)}, as pock check does.`}
      </p>
      <WaitsNote seconds={waits} />
      {problem && !recipeIsWrong && <ProblemBox problem={problem} />}
      {estimate && takes && (
        <div class={(pending && !soon) || recipeIsWrong || problem ? "dimmed" : ""}>
          <MemoryBar takes={takes} budget={budget ?? estimate.memory_bytes * SHARE} />
          <Comparison a={other?.estimate ?? null} b={takes} />
        </div>
      )}
      <div class="actions">
        {other === null ? (
          <button type="button" class="button" disabled={onKeep === null} onClick={() => onKeep?.()}>
            Keep beside the next
          </button>
        ) : (
          <>
            <button type="button" class="button" onClick={() => onTakeOther?.()}>
              Go on from the kept one
            </button>
            <button type="button" class="button" onClick={onForget}>
              Drop the kept one
            </button>
          </>
        )}
      </div>
    </div>
  );
}

interface Figure {
  readonly name: string;
  /** Null where it is not known yet. */
  readonly of: (takes: Estimate | About) => number | null;
  readonly text: (value: number) => string;
}

const FIGURES: readonly Figure[] = [
  { name: "Peak memory", of: (e) => e.predicted_peak_bytes, text: format.bytes },
  { name: "Activations and gradients", of: (e) => e.arena_bytes, text: format.bytes },
  { name: "Optimizer state", of: (e) => e.state_bytes, text: format.bytes },
  { name: "Expected step", of: (e) => e.step_ms, text: format.milliseconds },
  { name: "Operations a step", of: (e) => ("flops" in e ? sum(e.flops) : null), text: format.count },
  { name: "Numbers trained", of: (e) => e.trained_parameters, text: format.count },
  { name: "Backward nodes", of: (e) => ("nodes_backward" in e ? e.nodes_backward : null), text: format.count },
];

const sum = (values: Readonly<Record<string, number>>) => Object.values(values).reduce((all, one) => all + one, 0);

function Comparison({ a, b }: { readonly a: Estimate | null; readonly b: Estimate | About }) {
  return (
    <TableFrame label="Figures of the scheme">
      <table>
        <thead>
          <tr>
            <th scope="col">Figure</th>
            {a && (
              <th scope="col" class="number">
                Kept
              </th>
            )}
            <th scope="col" class="number">
              {a ? "Now" : "This scheme"}
            </th>
            {a && (
              <th scope="col" class="number">
                Difference
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {FIGURES.map(({ name, of, text }) => {
            const was = a && of(a);
            const is = of(b);
            return (
              <tr key={name}>
                <td>{name}</td>
                {was !== null && <td class="number">{text(was)}</td>}
                <td class="number">{is === null ? "…" : text(is)}</td>
                {was !== null && <td class="number">{is === null ? "…" : deviation(is, was)}</td>}
              </tr>
            );
          })}
        </tbody>
      </table>
    </TableFrame>
  );
}

const deviation = (is: number, was: number) => (is === was ? "same" : format.deviation(is, was));
