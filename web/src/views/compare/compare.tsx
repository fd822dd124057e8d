/** Several runs beside each other: figures, loss curves, accuracy against cost; all of the choice is in the address. */

import "../../styles/compare.css";
import { Later } from "../../components/later";
import { Empty, Loading, Page, ProblemBox, Section } from "../../components/page";
import { curl } from "../../commands";
import { address, setQuery } from "../../router";
import { ComparedCurves } from "./curves";
import { Find } from "./find";
import { useCurves, useRuns } from "./load";
import { saveReport } from "./report";
import { chosenRuns, grid, MOST_RUNS, rowOf, toggled } from "./rows";
import { costOf, Scatter } from "./scatter";
import { ComparedTable, Matrix } from "./table";

export function CompareView() {
  const query = address.value?.query;
  const ids = chosenRuns(query?.get("runs"));
  const runs = useRuns(ids);
  const rows = ids.flatMap((id, index) => {
    const run = runs.found.get(id);
    return run ? [rowOf(run, index)] : [];
  });
  const ended = rows.filter(({ run }) => run.finished_at !== null).length;
  const curves = useCurves(ids, ended);
  const base = rows.find(({ id }) => id === query?.get("base")) ?? rows[0];
  const selected = rows.find(({ id }) => id === query?.get("run"))?.id ?? null;
  const choose = (chosen: readonly string[]) => setQuery({ runs: chosen.join(",") });
  const toggle = (id: string) => choose(toggled(ids, id));
  const select = (id: string) => setQuery({ run: id === selected ? null : id });
  const save = () => saveReport({ rows, base, curves: curves.found, cost: costOf(), made: new Date() });
  const matrix = grid(rows);
  return (
    <Page
      title="Compare"
      aside={
        rows.length > 0 && (
          <>
            <button type="button" class="button" onClick={() => print()}>
              Print
            </button>
            <button type="button" class="button" onClick={save} disabled={!curves.complete}>
              Save as a report
            </button>
          </>
        )
      }
    >
      {runs.problem && <ProblemBox problem={runs.problem} retry={runs.reload} />}
      {runs.gone.length > 0 && (
        <div class="problem" role="alert">
          <p>{runs.gone.length} of the chosen runs are not there any more.</p>
          <button type="button" class="button" onClick={() => choose(ids.filter((id) => !runs.gone.includes(id)))}>
            Leave them out
          </button>
        </div>
      )}
      {ids.length > 0 && rows.length === 0 && !runs.complete && <Loading what="runs" />}
      {rows.length > 0 && (
        <>
          <Section
            title="Figures"
            note={rows.length > 1 && base && `Differences are to ${base.name} on ${base.device}.`}
            command={base && curl(`/runs/${base.id}`, ".report")}
          >
            <ComparedTable rows={rows} base={base} selected={selected} onSelect={select} onRemove={toggle} />
          </Section>
          {matrix && (
            <Later>
              <Section title="Devices by schemes" note="Accuracy, measured peak memory and median step time.">
                <Matrix of={matrix} />
              </Section>
            </Later>
          )}
          <Later>
            <Section title="Accuracy against cost">
              <Scatter rows={rows} selected={selected} onSelect={select} />
            </Section>
          </Later>
          <Later>
            <Section title="Loss" command={base && curl(`/runs/${base.id}/steps`)}>
              {curves.problem && <ProblemBox problem={curves.problem} />}
              {curves.complete ? (
                <Later>
                  <ComparedCurves rows={rows} curves={curves.found} selected={selected} />
                </Later>
              ) : (
                <Loading what="steps" />
              )}
            </Section>
          </Later>
        </>
      )}
      {runs.complete && curves.complete && (
        <Later>
          <div class="on-screen">
            <Section title="Choose runs" note={`${ids.length} of at most ${MOST_RUNS} are chosen.`}>
              {ids.length === 0 && <Empty title="No run is chosen yet." />}
              <Find chosen={ids} onToggle={toggle} />
            </Section>
          </div>
        </Later>
      )}
    </Page>
  );
}
