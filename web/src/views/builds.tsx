/** Lists of builds and of runs, newest first. */

import type { Build, Run } from "../api/types";
import { Command } from "../components/copy";
import { Empty, Loaded, Page, Section } from "../components/page";
import { curl, curlPost } from "../commands";
import { SELDOM_MS, useList } from "../data";
import { useChanges } from "../hooks";
import { address, link, setQuery, useKept } from "../router";
import { BuildMatrix } from "./builds/matrix";
import { toggled } from "./compare/rows";
import { BuildTable, More, RunTable } from "./tables";

export function BuildsView() {
  const shown = address.value?.query.get("show") === "matrix" ? "matrix" : "list";
  return (
    <Page title="Builds" command={curl("/builds")}>
      <div class="chips" role="group" aria-label="Form">
        {FORMS.map(({ form, text }) => (
          <button
            key={form}
            type="button"
            class="chip"
            aria-pressed={form === shown}
            onClick={() => setQuery({ show: form === "list" ? null : form })}
          >
            {text}
          </button>
        ))}
      </div>
      {shown === "matrix" ? <BuildMatrix /> : <BuildList />}
    </Page>
  );
}

const FORMS = [
  { form: "list", text: "List" },
  { form: "matrix", text: "Schemes by targets" },
] as const;

function BuildList() {
  const { of, more } = useList<Build>("/builds", SELDOM_MS);
  useChanges("builds", of.reload);
  return (
    <Section title="All builds">
      <Loaded of={of} what="builds">
        {(builds) =>
          builds.length === 0 ? (
            <Empty title="No builds yet.">
              <p>
                Request one from a <a href="#/models">model's page</a>, or:
              </p>
              <Command
                text={curlPost("/builds", {
                  model_id: "MODEL_ID",
                  recipe: { loss: "cross_entropy" },
                  target: "host",
                })}
                of="requesting a build"
              />
            </Empty>
          ) : (
            <BuildTable builds={builds} label="Builds" />
          )
        }
      </Loaded>
      <More more={more} />
    </Section>
  );
}

export function RunsView() {
  const { of, more } = useList<Run>("/runs", SELDOM_MS);
  useChanges("runs", of.reload);
  const [marked, setMarked] = useKept<readonly string[]>("marked runs", []);
  const marks = { ids: marked, toggle: (id: string) => setMarked(toggled(marked, id)) };
  return (
    <Page
      title="Runs"
      command={curl("/runs")}
      aside={
        <>
          <a class="button" href="#/campaigns">
            Campaigns
          </a>
          <a class="button" href={link.compare(marked)}>
            {marked.length === 0 ? "Compare runs" : `Compare ${marked.length} marked`}
          </a>
        </>
      }
    >
      <Section title="All runs">
        <Loaded of={of} what="runs">
          {(runs) =>
            runs.length === 0 ? (
              <Empty title="No runs yet.">
                <p>
                  Start one from the page of a <a href="#/builds">build</a> that has succeeded.
                </p>
              </Empty>
            ) : (
              <RunTable runs={runs} label="Runs" marks={marks} />
            )
          }
        </Loaded>
        <More more={more} />
      </Section>
    </Page>
  );
}
