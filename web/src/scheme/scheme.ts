/** What is trained of each parameter of a model, and the rules of a recipe that say the same. Pure; knows no page. */

import type { Layer } from "../api/types";

/** Of one parameter: frozen, all of it, a share of its input channels, or an adapter of a rank beside it. */
export type Choice =
  | { readonly kind: "frozen" | "all" }
  | { readonly kind: "channels"; readonly share: number }
  | { readonly kind: "rank"; readonly rank: number };

/** Name of a parameter -> what is trained of it; what is not in it is frozen. */
export type Scheme = ReadonlyMap<string, Choice>;

export interface Parameter {
  readonly name: string;
  readonly shape: readonly number[];
  /** How many input channels it has; null where it has none. */
  readonly channels: number | null;
}

/** One row of the picker. */
export interface Row {
  readonly name: string;
  readonly parameters: readonly Parameter[];
}

const FROZEN: Choice = { kind: "frozen" };
const ALL: Choice = { kind: "all" };
export const SHARES = [1 / 8, 1 / 4, 1 / 2] as const;
export const RANKS = [2, 4, 8, 16] as const;

/** Weights have two axes or more; biases and the scales of norms have one. */
export const isWeight = (parameter: Parameter) => parameter.shape.length >= 2;

/** Beside a weight all that is none; of a norm what is called so. */
const isBias = (row: Row, parameter: Parameter) =>
  row.parameters.some(isWeight) ? !isWeight(parameter) : parameter.name.endsWith("bias");

/** A layer of the service's answer as a row. */
export function rowOf(layer: Layer): Row {
  const parameters = layer.parameters.map(({ name, shape, input_channels }) => ({
    name,
    shape,
    channels: input_channels ?? null,
  }));
  return { name: layer.name, parameters };
}

/** What a whole layer can be: `mixed` is said of one that is none of the others. */
export type Option = "frozen" | "bias" | "all" | "mixed" | `share-${number}` | `rank-${number}`;

/** What can be chosen for a layer, in the order in which it costs more. */
export function optionsOf(row: Row): Option[] {
  const weights = row.parameters.filter(isWeight);
  if (row.parameters.length === 0) return [];
  const biases = row.parameters.filter((parameter) => isBias(row, parameter)).length;
  const bias: Option[] = biases > 0 && biases < row.parameters.length ? ["bias"] : [];
  if (weights.length === 0) return ["frozen", ...bias, "all"];
  const shared = weights.some(({ channels }) => (channels ?? 0) > 1);
  const shares = shared ? SHARES.map((share): Option => `share-${share}`) : [];
  const matrices = weights.every(({ shape }) => shape.length === 2);
  const ranks = matrices ? RANKS.map((rank): Option => `rank-${rank}`) : [];
  return ["frozen", ...bias, ...shares, "all", ...ranks];
}

const NAMES: Readonly<Record<string, string>> = { frozen: "frozen", bias: "bias", all: "all", mixed: "mixed" };

/** What an option is called. */
export function optionText(option: Option): string {
  const [kind = "", number] = option.split("-");
  if (kind === "share") return `1/${Math.round(1 / Number(number))} of the channels`;
  if (kind === "rank") return `adapter, rank ${number}`;
  return NAMES[option] ?? option;
}

/** What an option means for each parameter of a layer. */
export function chosen(row: Row, option: Option): [string, Choice][] {
  const [kind, number] = option.split("-");
  const of = (parameter: Parameter): Choice => {
    if (kind === "frozen" || kind === "mixed") return FROZEN;
    if (kind === "bias") return isBias(row, parameter) ? ALL : FROZEN;
    if (!isWeight(parameter)) return kind === "rank" ? FROZEN : ALL;
    if (kind === "rank") return { kind: "rank", rank: Number(number) };
    if (kind === "share" && (parameter.channels ?? 0) > 1) return { kind: "channels", share: Number(number) };
    return ALL;
  };
  return row.parameters.map((parameter) => [parameter.name, of(parameter)]);
}

const same = (a: Choice, b: Choice) => JSON.stringify(a) === JSON.stringify(b);
const choiceOf = (scheme: Scheme, name: string) => scheme.get(name) ?? FROZEN;

/** The option that says what a scheme trains of a layer. */
export function optionOf(row: Row, scheme: Scheme): Option {
  const found = optionsOf(row).find((option) =>
    chosen(row, option).every(([name, choice]) => same(choice, choiceOf(scheme, name))),
  );
  return found ?? (row.parameters.length === 0 ? "frozen" : "mixed");
}

/** The scheme after some layers were given an option. */
export function withOption(scheme: Scheme, rows: readonly Row[], option: Option): Scheme {
  const changed = new Map(scheme);
  for (const row of rows) {
    // A layer that cannot be this stays as it is: one of norms has no channels.
    if (option !== "frozen" && !optionsOf(row).includes(option)) continue;
    for (const [name, choice] of chosen(row, option)) changed.set(name, choice);
  }
  return changed;
}

export interface Rule {
  readonly params: string;
  readonly channels?: number;
}

/** The parts of a recipe that say what is trained. */
export interface Trained {
  readonly update?: readonly Rule[];
  readonly lora?: { readonly params: readonly string[]; readonly rank: number; readonly ranks?: readonly RankRule[] };
}

interface RankRule {
  readonly params: string;
  readonly rank: number;
}

/** A pattern that means this name alone, as `fnmatch` reads it. */
const literally = (name: string) => name.replace(/[[*?]/g, "[$&]");

/** Whether `fnmatch` finds a name by a pattern: `*`, `?` and sets in brackets, over dots, too. */
export function matches(pattern: string, name: string): boolean {
  return matching(pattern).test(name);
}

function matching(pattern: string): RegExp {
  let source = "";
  for (let at = 0; at < pattern.length; at += 1) {
    const letter = pattern.charAt(at);
    const end = letter === "[" ? pattern.indexOf("]", at + 2) : -1;
    if (end > 0) {
      source += `[${pattern
        .slice(at + 1, end)
        .replace(/\\/g, "\\\\")
        .replace(/^!/, "^")}]`;
      at = end;
    } else if (letter === "*") source += "[\\s\\S]*";
    else if (letter === "?") source += "[\\s\\S]";
    else source += letter.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  }
  return new RegExp(`^${source}$`);
}

/**
 * The rules that train exactly what a scheme says, short ones where they can be: `*` for everything, a pattern for a kind
 * of parameter or a module, else each by its name. The first rule that fits a parameter decides.
 */
export function rulesOf(rows: readonly Row[], scheme: Scheme): Trained {
  const all = rows.flatMap((row) => row.parameters);
  const wanted = all.filter(({ name }) => ["all", "channels"].includes(choiceOf(scheme, name).kind));
  const rules: Rule[] = [];
  const covered = new Set<string>();
  const cover = (pattern: string, choice: Choice): boolean => {
    const fitting = matching(pattern);
    const found = all.filter(({ name }) => !covered.has(name) && fitting.test(name));
    const fits = found.length > 1 && found.every(({ name }) => same(choiceOf(scheme, name), choice));
    if (fits) {
      rules.push(choice.kind === "channels" ? { params: pattern, channels: choice.share } : { params: pattern });
      for (const { name } of found) covered.add(name);
    }
    return fits;
  };
  const kinds = [...new Set(all.map(({ name }) => `*.${name.split(".").at(-1) ?? name}`))].filter(
    (pattern) => literally(pattern) === pattern.replace("*", "[*]"),
  );
  for (const pattern of ["*", ...kinds]) {
    const fitting = matching(pattern);
    const first = all.find(({ name }) => !covered.has(name) && fitting.test(name));
    const choice = first && choiceOf(scheme, first.name);
    if (choice && (choice.kind === "all" || choice.kind === "channels")) cover(pattern, choice);
  }
  for (const row of rows) {
    for (const { name } of row.parameters) {
      const choice = choiceOf(scheme, name);
      if (covered.has(name) || (choice.kind !== "all" && choice.kind !== "channels")) continue;
      if (cover(`${literally(row.name)}.*`, choice)) continue;
      rules.push(
        choice.kind === "channels" ? { params: literally(name), channels: choice.share } : { params: literally(name) },
      );
      covered.add(name);
    }
  }
  const lora = adapters(all, scheme);
  return { ...(wanted.length > 0 ? { update: rules } : {}), ...(lora ? { lora } : {}) };
}

function adapters(all: readonly Parameter[], scheme: Scheme): Trained["lora"] {
  const ranked = all.flatMap(({ name }) => {
    const choice = choiceOf(scheme, name);
    return choice.kind === "rank" ? [{ name, rank: choice.rank }] : [];
  });
  if (ranked.length === 0) return undefined;
  const counts = new Map<number, number>();
  for (const { rank } of ranked) counts.set(rank, (counts.get(rank) ?? 0) + 1);
  const usual = [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? RANKS[0];
  const others = ranked
    .filter(({ rank }) => rank !== usual)
    .map(({ name, rank }) => ({ params: literally(name), rank }));
  const params = ranked.map(({ name }) => literally(name));
  return others.length > 0 ? { params, rank: usual, ranks: others } : { params, rank: usual };
}

const ADAPTER = /^(.*)\.lora_A\.weight$/;

/** The scheme that the service read out of a recipe. */
export function schemeOf(layers: readonly Layer[]): Scheme {
  const found = new Map<string, Choice>();
  for (const { name, shape, trained, channels, input_channels } of layers.flatMap((layer) => layer.parameters)) {
    const adapted = ADAPTER.exec(name);
    if (adapted) found.set(`${adapted[1] ?? ""}.weight`, { kind: "rank", rank: shape[0] ?? 1 });
    else if (name.endsWith(".lora_B.weight")) continue;
    else if (trained === "channels")
      found.set(name, { kind: "channels", share: nearest((channels ?? 0) / Math.max(1, input_channels ?? 1)) });
    else if (trained === "all") found.set(name, ALL);
  }
  return found;
}

/** A share that can be chosen, where a count of channels was rounded from it. */
function nearest(share: number): number {
  return SHARES.find((one) => Math.abs(one - share) < one / 10) ?? share;
}

/** What a person would begin with. */
export const PRESETS: readonly { readonly name: string; readonly choose: (rows: readonly Row[]) => Scheme }[] = [
  { name: "Everything", choose: (rows) => withOption(new Map(), trainable(rows), "all") },
  { name: "Head only", choose: (rows) => withOption(new Map(), trainable(rows).slice(-1), "all") },
  {
    name: "All biases, and the head",
    choose: (rows) => withOption(withOption(new Map(), trainable(rows), "bias"), trainable(rows).slice(-1), "all"),
  },
  { name: "Last 4 layers", choose: (rows) => withOption(new Map(), trainable(rows).slice(-4), "all") },
  {
    name: "Half of the channels of the last 8 layers",
    choose: (rows) => {
      const last = trainable(rows).slice(-8);
      return withOption(withOption(new Map(), last, "bias"), last, "share-0.5");
    },
  },
  {
    name: "Adapters of rank 4 beside all matrices, and the head",
    choose: (rows) => withOption(withOption(new Map(), trainable(rows), "rank-4"), trainable(rows).slice(-1), "all"),
  },
];

/** The layers that have something to train. */
export function trainable(rows: readonly Row[]): Row[] {
  return rows.filter((row) => row.parameters.length > 0);
}
