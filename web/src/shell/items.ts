/** What the palette offers: views, actions, the commands of the view, and what the server finds by name or id. */

import { get, type Page } from "../api/client";
import type { Build, Campaign, Dataset, Device, Model, Run } from "../api/types";
import { signOut } from "../api/account";
import * as format from "../format";
import { type Scope, whyNot } from "../permission";
import { runText } from "../names";
import { go, link } from "../router";
import { PARTS } from "../views/admin/parts";
import { SECTIONS } from "../views/table_of_views";
import { letterOf, overlay } from "./overlay";

export interface Item {
  readonly key: string;
  readonly group: string;
  readonly text: string;
  readonly hint: string;
  /** Null where the person may not do it; the hint says why. */
  readonly choose: (() => void) | null;
}

const ACTIONS: readonly (readonly [text: string, href: string, scope: Scope])[] = [
  ["Upload a model", "#/models?upload=1", "models:write"],
  ["Upload data", "#/datasets?upload=1", "models:write"],
  ["Enrol a device", "#/fleet?enrol=1", "devices:admin"],
  ["Start a campaign", "#/campaigns?new=1", "runs:write"],
];

/** Views and actions, which are there without asking. */
export function fixedItems(): Item[] {
  const views = SECTIONS.map(({ name, href }) => ({
    key: href,
    group: "Go to",
    text: name,
    hint: `g ${letterOf(name)}`,
    choose: () => go(href),
  }));
  const actions = ACTIONS.map(([text, href, scope]) => {
    const refused = whyNot(scope);
    return { key: text, group: "Do", text, hint: refused ?? "", choose: refused === null ? () => go(href) : null };
  });
  const parts = PARTS.filter(({ href }) => !SECTIONS.some((one) => one.href === href)).map(({ name, href, scope }) => {
    const refused = scope === null ? null : whyNot(scope);
    return {
      key: href,
      group: "Go to",
      text: `Admin: ${name}`,
      hint: refused ?? "",
      choose: refused === null ? () => go(href) : null,
    };
  });
  const campaigns = {
    key: "#/campaigns",
    group: "Go to",
    text: "Campaigns",
    hint: "",
    choose: () => go("#/campaigns"),
  };
  return [
    ...views,
    campaigns,
    ...parts,
    ...actions,
    {
      key: "commands",
      group: "Do",
      text: "Copy a command of this view",
      hint: "c",
      choose: () => (overlay.value = "commands"),
    },
    { key: "keys", group: "Do", text: "Show the keys", hint: "?", choose: () => (overlay.value = "keys") },
    { key: "out", group: "Do", text: "Sign out", hint: "", choose: () => void signOut().catch(() => undefined) },
  ];
}

/** The copy buttons of the view, by their names. */
export function commandItems(): Item[] {
  const buttons = [...document.querySelectorAll<HTMLButtonElement>("main .copy-button")];
  return buttons.map((button, place) => ({
    key: `copy ${place}`,
    group: "Copy",
    text: button.ariaLabel ?? "",
    hint: button.title,
    choose: () => button.click(),
  }));
}

/** The items that have every word of what was typed, in their order. */
export function matching(items: readonly Item[], typed: string): Item[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  return items.filter(({ text }) => words.every((word) => text.toLowerCase().includes(word)));
}

const MOST = 5;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

interface Kind<T> {
  readonly group: string;
  readonly path: string;
  /** The query that finds by a name in which `*` stands for anything; null where the service cannot. */
  readonly query: ((pattern: string) => string) | null;
  readonly text: (row: T) => string;
  readonly hint: (row: T) => string;
  readonly href: (id: string) => string;
}

const byName = (pattern: string) => `name=${encodeURIComponent(pattern)}`;
const kind = <T>(one: Kind<T>) => one as Kind<unknown>;

const KINDS: readonly Kind<unknown>[] = [
  kind<Model>({
    group: "Models",
    path: "/models",
    query: byName,
    text: ({ name, version }) => `${name} v${version}`,
    hint: () => "",
    href: link.model,
  }),
  kind<Dataset>({
    group: "Data",
    path: "/datasets",
    query: byName,
    text: ({ name, version }) => `${name} v${version}`,
    hint: ({ samples }) => `${format.count(samples)} samples`,
    href: link.dataset,
  }),
  kind<Build>({
    group: "Builds",
    path: "/builds",
    query: byName,
    text: ({ name, version }) => `${name} v${version}`,
    hint: ({ target, state }) => `${target}, ${state}`,
    href: link.build,
  }),
  kind<Device>({
    group: "Devices",
    path: "/devices",
    // A selector has signs of its own; each stands for any character here.
    query: (pattern) => `on=${encodeURIComponent(pattern.replace(/[,"=!<>\\]/g, "?"))}`,
    text: ({ name }) => name,
    hint: ({ target, state }) => [target, state].filter(Boolean).join(", "),
    href: link.device,
  }),
  kind<Campaign>({
    group: "Campaigns",
    path: "/campaigns",
    query: byName,
    text: ({ name }) => name,
    hint: ({ state }) => state,
    href: link.campaign,
  }),
  kind<Run>({
    group: "Runs",
    path: "/runs",
    query: null,
    text: (run) => `${runText(run)} on ${run.device_name}`,
    hint: ({ state }) => state,
    href: link.run,
  }),
];

/** What the server finds: names that hold what was typed, or the one thing that has this id. A kind that cannot be asked
 * is left out. */
export async function found(typed: string, signal: AbortSignal): Promise<Item[]> {
  const wanted = typed.trim();
  if (wanted === "") return [];
  const answers = await Promise.all(
    KINDS.map(async (one): Promise<Item[]> => {
      try {
        const rows = await ask(one, wanted, signal);
        return rows.map((row) => ({
          key: row.id,
          group: one.group,
          text: one.text(row),
          hint: one.hint(row),
          choose: () => go(one.href(row.id)),
        }));
      } catch {
        return [];
      }
    }),
  );
  return answers.flat();
}

async function ask(one: Kind<unknown>, wanted: string, signal: AbortSignal): Promise<readonly { id: string }[]> {
  if (ID.test(wanted)) return [await get<{ id: string }>(`${one.path}/${wanted}`, signal)];
  if (!one.query) return [];
  const query = one.query(`*${wanted.slice(0, 100)}*`);
  return (await get<Page<{ id: string }>>(`${one.path}?limit=${MOST}&${query}`, signal)).items;
}
