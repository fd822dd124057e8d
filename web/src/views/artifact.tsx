/** One artifact: summary, memory timeline, heaviest nodes, tensors, and what devices measured against the plan. */

import { useMemo, useState } from "preact/hooks";
import type { Page as ListPage } from "../api/client";
import type { Artifact, Tensor } from "../api/types";
import type { Run } from "../api/types";
import { Command, CopyButton } from "../components/copy";
import { Facts, Figures } from "../components/figures";
import { Later } from "../components/later";
import { Empty, Loaded, Page, Section, TableFrame } from "../components/page";
import { curl, curlBlob, quote } from "../commands";
import * as format from "../format";
import { useResource } from "../data";
import { runText } from "../names";
import { address, link, setQuery } from "../router";
import { PeakTable } from "../timeline/peak";
import { planOf } from "../timeline/layout";
import { HeaviestNodes } from "../timeline/heavy";
import { MemoryTimeline } from "../timeline/timeline";
import { cLines, hasLibrary, pythonLines, shellLines } from "../timeline/use";
import { PlannedAgainstMeasured } from "./memory";
import { recipeText } from "./recipe";
import { Kernels } from "./run/kernels";
import { summaryFigures } from "./summary";

export function ArtifactView({ id: digest }: { readonly id: string }) {
  const path = `/artifacts/${digest}`;
  const artifact = useResource<Artifact>(path);
  const data = artifact.data;
  return (
    <Page
      title={data?.name ?? format.shortDigest(digest)}
      kind="Artifact"
      back={data?.build_id ? { href: link.build(data.build_id), text: "Build" } : { href: "#/builds", text: "Builds" }}
      command={curl(path)}
    >
      <Loaded of={artifact} what="the artifact">
        {(loaded) => <Contents artifact={loaded} path={path} />}
      </Loaded>
    </Page>
  );
}

const PROGRAMS = ["train", "eval", "predict"];

function Contents({ artifact, path }: { readonly artifact: Artifact; readonly path: string }) {
  const programs = PROGRAMS.filter((name) => planOf(artifact.programs[name]) !== null);
  const said = address.value?.query.get("program") ?? "";
  const chosen = programs.includes(said) ? said : (programs[0] ?? "train");
  const choose = (program: string) => setQuery({ program, at: null, nodes: null, value: null });
  const plan = useMemo(() => planOf(artifact.programs[chosen]), [artifact, chosen]);
  return (
    <>
      <Section title="Summary">
        <Figures
          items={[
            ...summaryFigures(artifact.summary, path, ".summary"),
            { label: "Artifact", value: format.bytes(artifact.size), command: curl(path, ".size") },
          ]}
        />
        <Command text={curlBlob(artifact.digest, `${artifact.name}.pock`)} of="downloading the artifact" />
        <Command
          text={`pock run ${quote(`${artifact.name}.pock`)} bench --steps 50`}
          of="measuring the step time here"
        />
      </Section>
      {typeof artifact.summary.predicted_peak_bytes === "number" && (
        <Later>
          <Section
            title="The peak, byte by byte"
            note="What the process needs at the peak of a training step, as planned. The parts sum to the predicted peak."
            command={curl(path, ".summary")}
          >
            <PeakTable summary={artifact.summary} peak={artifact.summary.predicted_peak_bytes} />
          </Section>
        </Later>
      )}
      {programs.length > 1 && (
        <Later>
          <fieldset class="choice card">
            <legend>Program</legend>
            {programs.map((name) => (
              <label key={name}>
                <input type="radio" name="program" checked={name === chosen} onChange={() => choose(name)} />
                {name}
              </label>
            ))}
          </fieldset>
        </Later>
      )}
      {plan && (
        <>
          <Later>
            <Section
              title="Memory timeline"
              note={
                `Every value of the ${chosen} program in its place in the arena, over the nodes in the order in which ` +
                `they run. Arena ${format.bytes(plan.arenaBytes)}, lower bound ` +
                `${format.bytes(plan.lowerBoundBytes)} (${format.deviation(plan.arenaBytes, plan.lowerBoundBytes)}).`
              }
              command={curl(path, `.programs.${chosen} | {arena_bytes, lower_bound_bytes, slots}`)}
            >
              <MemoryTimeline key={chosen} program={plan} />
            </Section>
          </Later>
          <Later>
            <Section title="Heaviest nodes" command={curl(path, `.programs.${chosen}.nodes | sort_by(-.flops)`)}>
              <HeaviestNodes nodes={plan.nodes} />
            </Section>
          </Later>
        </>
      )}
      <Later>
        <Use artifact={artifact} />
      </Later>
      <Later>
        <Measured artifact={artifact} />
      </Later>
      <Later>
        <Tensors tensors={artifact.tensors} path={path} />
      </Later>
      <Later>
        <Details artifact={artifact} path={path} />
      </Later>
    </>
  );
}

function Use({ artifact }: { readonly artifact: Artifact }) {
  const times = typeof artifact.recipe["accumulate"] === "number" ? artifact.recipe["accumulate"] : 1;
  const inputs = artifact.inputs.map(({ shape: [samples, ...rest], ...input }) => ({
    ...input,
    shape: samples === undefined ? [] : [samples * times, ...rest],
    optional: input.optional === true,
  }));
  const used = { name: artifact.name, inputs, members: Object.keys(artifact.members) };
  return (
    <Section
      title="Use it"
      note="In the folder of the downloaded artifact. Python and C train one step on zeros: put your samples in their place."
    >
      <h3>Shell</h3>
      <Command text={shellLines(used)} of="training in a shell" />
      <h3>Python</h3>
      <Command text={pythonLines(used)} of="training from Python" />
      {hasLibrary(used) && (
        <>
          <h3>C, as use.c</h3>
          <Command text={cLines(used)} of="training from C" />
        </>
      )}
    </Section>
  );
}

/** What devices measured with this artifact: peaks next to the plan, and each kernel's time of the newest run that was
 * asked for them. */
function Measured({ artifact }: { readonly artifact: Artifact }) {
  const path = artifact.build_id ? `/runs?build_id=${artifact.build_id}&state=succeeded&limit=50` : null;
  const runs = useResource<ListPage<Run>>(path);
  if (path === null) return null;
  const timed = runs.data?.items.find((run) => run.profile);
  return (
    <>
      <Section title="Planned against measured" command={curl(path)}>
        <Loaded of={runs} what="runs">
          {({ items }) => {
            const measured = items.filter((run) => run.report?.train?.peak_rss_bytes);
            if (measured.length === 0) return <Empty title="No device has run this artifact to the end yet." />;
            return <PlannedAgainstMeasured runs={measured} planned={artifact.summary.predicted_peak_bytes ?? null} />;
          }}
        </Loaded>
      </Section>
      {timed && <Timed path={`/runs/${timed.id}`} />}
    </>
  );
}

function Timed({ path }: { readonly path: string }) {
  const run = useResource<Run>(path);
  return (
    <Section title="Time per operator" command={curl(path, ".report.train.kernels")}>
      <Loaded of={run} what="the run">
        {(loaded) => (
          <>
            <p class="note">
              Of <a href={link.run(loaded.id)}>{runText(loaded)}</a>, on {loaded.device_name}.
            </p>
            <Kernels kernels={loaded.report?.train?.kernels ?? []} run={runText(loaded)} />
          </>
        )}
      </Loaded>
    </Section>
  );
}

function trainedText(tensor: Tensor): string {
  if (tensor.trained !== "channels" || tensor.channels === null) return tensor.trained;
  return `${Array.isArray(tensor.channels) ? tensor.channels.length : tensor.channels} channels`;
}

/** Rows of the tensor table before the person asks for all. */
const TENSORS = 20;

function Tensors({ tensors, path }: { readonly tensors: readonly Tensor[]; readonly path: string }) {
  const [onlyTrained, setOnlyTrained] = useState(true);
  const [all, setAll] = useState(false);
  const wanted = onlyTrained ? tensors.filter((tensor) => tensor.trained !== "frozen") : tensors;
  const shown = all ? wanted : wanted.slice(0, TENSORS);
  return (
    <Section title="Tensors" command={curl(path, ".tensors")}>
      <label class="check">
        <input
          type="checkbox"
          checked={onlyTrained}
          onChange={(event) => setOnlyTrained(event.currentTarget.checked)}
        />
        Only what is trained ({tensors.filter((tensor) => tensor.trained !== "frozen").length} of {tensors.length})
      </label>
      <TableFrame label="Tensors">
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Role</th>
              <th scope="col">Trained</th>
              <th scope="col">Type</th>
              <th scope="col">Shape</th>
              <th scope="col" class="number">
                Bytes
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((tensor) => (
              <tr key={`${tensor.role}:${tensor.name}`}>
                <td class="mono">{tensor.name}</td>
                <td>{tensor.role}</td>
                <td>{trainedText(tensor)}</td>
                <td>{tensor.dtype}</td>
                <td class="nowrap">{format.shape(tensor.shape)}</td>
                <td class="number">{format.bytes(tensor.nbytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
      {wanted.length > TENSORS && (
        <button type="button" class="button" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show all ${wanted.length}`}
        </button>
      )}
    </Section>
  );
}

function Details({ artifact, path }: { readonly artifact: Artifact; readonly path: string }) {
  const members = Object.entries(artifact.members);
  return (
    <Section title="Contents" command={curl(path, "{target, threads, recipe, members, created_by}")}>
      <Facts
        items={[
          [
            "SHA-256",
            <span key="digest" class="mono wrap">
              {artifact.digest} <CopyButton text={artifact.digest} of="SHA-256" what="value" />
            </span>,
          ],
          ["Target", [artifact.target.name, artifact.target.triple, artifact.target.cpu].filter(Boolean).join(" · ")],
          ["Threads", artifact.threads],
          [
            "Made by",
            Object.entries(artifact.created_by)
              .map(([tool, version]) => `${tool} ${version}`)
              .join(", "),
          ],
          [
            "Inputs",
            artifact.inputs.map((port) => `${port.name} ${port.dtype} ${format.shape(port.shape)}`).join("; "),
          ],
          [
            "Outputs",
            artifact.outputs.map((port) => `${port.name} ${port.dtype} ${format.shape(port.shape)}`).join("; "),
          ],
          ...members.map(
            ([name, member]) => [name, `${format.bytes(member.size)}, ${format.shortDigest(member.sha256)}`] as const,
          ),
        ]}
      />
      <h3>Recipe</h3>
      <pre class="block" tabIndex={0} aria-label="Recipe">
        {recipeText(artifact.recipe)}
      </pre>
    </Section>
  );
}
