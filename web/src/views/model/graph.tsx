/** The graph of a model, or of its training step before and after pruning: modules that unfold, search, colours. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { ask, type Problem } from "../../api/client";
import { patiently } from "../../api/patience";
import type { GraphPicture, Model } from "../../api/types";
import { isSettled, Loading, Page, ProblemBox, Section } from "../../components/page";
import { curlPost } from "../../commands";
import { asProblem, useResource } from "../../data";
import * as format from "../../format";
import { GraphCanvas } from "../../graph/canvas";
import { type ColourBy, COLOURS, fills, type Palette } from "../../graph/colours";
import { type Drawing, Layouts } from "../../graph/layout";
import { around, type Box, firstOpen, modulesOf, seenOf, sought, treeOf } from "../../graph/tree";
import { address, link, setQuery, useKept } from "../../router";
import { withAllTrained } from "../../scheme/text";
import { BoxList } from "./graph_list";
import { Chosen, Legend } from "./graph_parts";
import { unpacked } from "./packed";
import "../../styles/graph.css";

type Which = "model" | "whole" | "pruned";

const WHICH: Readonly<Record<Which, string>> = {
  model: "the model",
  whole: "its training step before pruning",
  pruned: "its training step after pruning",
};

export function GraphView({ id }: { readonly id: string }) {
  const model = useResource<Model>(`/models/${id}`);
  const query = address.value?.query ?? new URLSearchParams();
  const recipe = unpacked(query.get("recipe"));
  const target = query.get("target") ?? "host";
  const said = query.get("graph");
  const which: Which = recipe === null || !(said === "whole" || said === "pruned") ? "model" : said;
  const text = which === "model" ? null : which === "whole" ? withAllTrained(recipe ?? "") : recipe;
  const { picture, problem, waits } = usePicture(id, text, target);
  const scheme = link.scheme(id, { recipe: query.get("recipe"), target: query.get("target") });
  return (
    <Page
      title={model.data ? `Graph of ${model.data.name}` : "Graph"}
      back={{ href: link.model(id), text: model.data?.name ?? "Model" }}
      command={curlPost(`/models/${id}/graph`, { recipe: text, target })}
      aside={
        <a class="button" href={scheme}>
          Choose what to train
        </a>
      }
    >
      {isSettled(model) && (
        <Section title="Graph">
          <div class="graph-page">
            <div class="graph-bar">
              <label class="field">
                <span>Graph of</span>
                <select value={which} onChange={(event) => setQuery({ graph: event.currentTarget.value, node: null })}>
                  {Object.entries(WHICH).map(([name, words]) => (
                    <option key={name} value={name} disabled={recipe === null && name !== "model"}>
                      {words}
                    </option>
                  ))}
                </select>
              </label>
              <ColourChoice />
            </div>
            {recipe === null && (
              <p class="note">
                For the training step, before and after pruning, <a href={scheme}>choose what to train</a>: that page
                leads here with its recipe.
              </p>
            )}
            {problem && <ProblemBox problem={problem} />}
            {picture ? (
              <Explorer key={`${which} ${text ?? ""}`} picture={picture} which={which} />
            ) : (
              !problem && <Loading what="the graph; the first time this takes some seconds" waits={waits} />
            )}
          </div>
        </Section>
      )}
    </Page>
  );
}

function ColourChoice() {
  return (
    <label class="field">
      <span>Colour by</span>
      <select value={colourBy()} onChange={(event) => setQuery({ colour: event.currentTarget.value })}>
        {Object.entries(COLOURS).map(([name, words]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

function colourBy(): ColourBy {
  const said = address.value?.query.get("colour") ?? "";
  return said in COLOURS ? (said as ColourBy) : "time";
}

/** Asks for a graph; what was told of another is not shown for it. */
function usePicture(id: string, recipe: string | null, target: string) {
  const question = `${id} ${target} ${recipe ?? ""}`;
  const [told, setTold] = useState<{
    readonly of: string;
    readonly picture: GraphPicture | null;
    readonly problem: Problem | null;
  } | null>(null);
  const [waits, setWaits] = useState<number | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    const asked = () => ask<GraphPicture>(`/models/${id}/graph`, { recipe, target }, abort.signal);
    patiently(asked, setWaits, abort.signal).then(
      (picture) => setTold({ of: question, picture, problem: null }),
      (error: unknown) => {
        if (!abort.signal.aborted) setTold({ of: question, picture: null, problem: asProblem(error) });
      },
    );
    return () => abort.abort();
  }, [question]);
  return told?.of === question ? { ...told, waits: null } : { picture: null, problem: null, waits };
}

/** As many boxes as are seen at once in the beginning. */
const FEW = 28;
const LONGEST_ADDRESS = 3000;

/** Which modules are unfolded: in the address as long as they are few, and kept for "back" in any case. */
function useOpen(root: Box, which: Which): [ReadonlySet<string>, (open: ReadonlySet<string>) => void] {
  const [open, setOpen] = useKept<ReadonlySet<string>>(`graph open ${which}`, initiallyOpen(root));
  return [
    open,
    (next) => {
      setOpen(next);
      const told = [...next].map(encodeURIComponent).join(",") || "none";
      setQuery({ open: told.length < LONGEST_ADDRESS ? told : null });
    },
  ];
}

function initiallyOpen(root: Box): ReadonlySet<string> {
  const told = address.peek()?.query.get("open");
  if (!told) return firstOpen(root, FEW);
  const named = new Set(told.split(","));
  return new Set(
    modulesOf(root)
      .map(({ id }) => id)
      .filter((id) => named.has(encodeURIComponent(id))),
  );
}

function Explorer({ picture, which }: { readonly picture: GraphPicture; readonly which: Which }) {
  const root = useMemo(() => treeOf(picture.nodes), [picture]);
  const [open, setOpen] = useOpen(root, which);
  const { drawing, problem } = useDrawing(root, picture, open);
  const [wanted, setWanted] = useState<{ readonly id: string; readonly turn: number } | null>(null);
  const by = colourBy();
  const seen = useMemo(() => seenOf(root, open), [root, open]);
  const closed = useMemo(() => seen.filter((box) => !open.has(box.id)), [seen, open]);
  const colours = useMemo(
    () => (palette: Palette) => fills(closed, picture.nodes, by, palette).of,
    [closed, picture, by],
  );
  const selected = address.value?.query.get("node") ?? null;
  const select = (id: string | null) => setQuery({ node: id });
  const toggle = (id: string) => {
    if (!modulesOf(root).some((box) => box.id === id)) return;
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    setOpen(next);
  };
  const show = (box: Box) => {
    const needed = around(box).filter((one) => one !== root && one.id !== root.id);
    if (needed.some(({ id }) => !open.has(id))) setOpen(new Set([...open, ...needed.map(({ id }) => id)]));
    select(box.id);
    setWanted({ id: box.id, turn: (wanted?.turn ?? 0) + 1 });
  };
  const all = modulesOf(root);
  const counts = `${format.count(picture.nodes.length)} nodes, ${format.count(picture.edges.length)} edges`;
  return (
    <>
      <div class="graph-bar">
        <Search root={root} onFound={show} />
        <div class="actions">
          <button type="button" class="button" onClick={() => setOpen(new Set(all.map(({ id }) => id)))}>
            Unfold all
          </button>
          <button type="button" class="button" onClick={() => setOpen(firstOpen(root, 0))}>
            Fold all
          </button>
        </div>
      </div>
      <p class="note" id="graph-keys">
        {counts}. Click a module to unfold it, a node to see what it is; wheel and drag move. Keys: arrows select, Enter
        unfolds, + and − zoom, Shift with an arrow moves, 0 shows all.
      </p>
      <Legend by={by} boxes={closed} nodes={picture.nodes} />
      {problem && <p class="problem">{problem}</p>}
      {drawing ? (
        <GraphCanvas
          drawing={drawing}
          fills={colours}
          selected={selected}
          wanted={wanted}
          label={`Graph, ${counts}, ${drawing.placed.length} boxes shown`}
          onSelect={select}
          onToggle={toggle}
        />
      ) : (
        !problem && <div class="graph-frame graph-empty">Laying out …</div>
      )}
      <Chosen id={selected} root={root} picture={picture} onShow={show} />
      <BoxList seen={seen} root={root} open={open} nodes={picture.nodes} onToggle={toggle} onShow={show} />
    </>
  );
}

/** The drawing of what is open; the last one stays until the next is laid out. */
function useDrawing(root: Box, picture: GraphPicture, open: ReadonlySet<string>) {
  const [told, setTold] = useState<{ readonly drawing: Drawing | null; readonly problem: string | null }>({
    drawing: null,
    problem: null,
  });
  const layouts = useMemo(() => new Layouts(), []);
  useEffect(() => () => layouts.end(), [layouts]);
  useEffect(() => {
    let current = true;
    layouts.of(root, picture, open).then(
      (drawing) => current && setTold({ drawing, problem: null }),
      () => current && setTold((old) => ({ ...old, problem: "The graph cannot be laid out. Fold some modules." })),
    );
    return () => {
      current = false;
    };
  }, [layouts, root, picture, open]);
  return told;
}

/** Finds by a part of a name; Enter goes on to the next that is found. */
function Search({ root, onFound }: { readonly root: Box; readonly onFound: (box: Box) => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState<number | null>(null);
  const found = useMemo(() => sought(root, text), [root, text]);
  const next = (by: number) => {
    if (found.length === 0) return;
    const place = at === null ? (by > 0 ? 0 : found.length - 1) : (at + by + found.length) % found.length;
    setAt(place);
    const box = found[place];
    if (box) onFound(box);
  };
  return (
    <label class="field">
      <span>
        Search{" "}
        <span role="status" class="faint">
          {text.trim() !== "" &&
            (found.length === 0
              ? "nothing found"
              : `${at === null ? "" : `${at + 1} of `}${found.length} found, Enter for the next`)}
        </span>
      </span>
      <input
        type="search"
        value={text}
        placeholder="name, module or operator"
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(null);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          next(event.shiftKey ? -1 : 1);
        }}
      />
    </label>
  );
}
