/** What the chosen scheme takes, against the device and against another scheme that was kept beside it. */

import type { Estimate } from "../../api/types";
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
  readonly budget: number | null;
  readonly other: Kept | null;
  readonly onKeep: (() => void) | null;
  readonly onTakeOther: (() => void) | null;
  readonly onForget: () => void;
  /** Why the text is not asked about at all. */
  readonly wrong: string | null;
}

const SHARE = 3 / 4;

export function Verdict({ estimated, budget, other, onKeep, onTakeOther, onForget, wrong }: VerdictProps) {
  const { estimate, problem, pending, took, waits } = estimated;
  const recipeIsWrong = problem?.failureCode === 3003 || wrong !== null;
  return (
    <div class="verdict">
      <p class="verdict-state" role="status">
        {wrong !== null || recipeIsWrong
          ? "The recipe is wrong, so what you see is of the one before."
          : pending
            ? "Planning …"
            : took !== null && `Planned in ${format.milliseconds(took)}, as pock check does.`}
      </p>
      <WaitsNote seconds={waits} />
      {problem && !recipeIsWrong && <ProblemBox problem={problem} />}
      {estimate && (
        <div class={pending || recipeIsWrong || problem ? "dimmed" : ""}>
          <MemoryBar takes={estimate} budget={budget ?? estimate.memory_bytes * SHARE} />
          <Comparison a={other?.estimate ?? null} b={estimate} />
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
  readonly of: (estimate: Estimate) => number;
  readonly text: (value: number) => string;
}

const FIGURES: readonly Figure[] = [
  { name: "Peak memory", of: (e) => e.predicted_peak_bytes, text: format.bytes },
  { name: "Activations and gradients", of: (e) => e.arena_bytes, text: format.bytes },
  { name: "Optimizer state", of: (e) => e.state_bytes, text: format.bytes },
  { name: "Expected step", of: (e) => e.step_ms, text: format.milliseconds },
  { name: "Operations a step", of: (e) => sum(e.flops), text: format.count },
  { name: "Numbers trained", of: (e) => e.trained_parameters, text: format.count },
  { name: "Backward nodes", of: (e) => e.nodes_backward, text: format.count },
];

const sum = (values: Readonly<Record<string, number>>) => Object.values(values).reduce((all, one) => all + one, 0);

function Comparison({ a, b }: { readonly a: Estimate | null; readonly b: Estimate }) {
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
          {FIGURES.map(({ name, of, text }) => (
            <tr key={name}>
              <td>{name}</td>
              {a && <td class="number">{text(of(a))}</td>}
              <td class="number">{text(of(b))}</td>
              {a && <td class="number">{of(a) === of(b) ? "same" : format.deviation(of(b), of(a))}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}
