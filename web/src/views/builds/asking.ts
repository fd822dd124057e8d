/** Asks for missing builds, one after the other. It goes on, and what became of it is kept, whichever view is shown. */

import { signal } from "@preact/signals";
import { post } from "../../api/client";
import type { Build } from "../../api/types";
import { asProblem } from "../../data";
import { me } from "../../session";
import { type Missing, orderLike } from "./rows";

export interface Outcome {
  readonly of: Missing;
  readonly build?: Build;
  readonly refused?: string;
}

export interface Asking {
  readonly wanted: readonly Missing[];
  readonly outcomes: readonly Outcome[];
  readonly busy: boolean;
  readonly stopped: boolean;
  /** Whose it is: the next person at this browser neither sees it nor goes on with it. */
  readonly session: string | null;
}

/** The latest of each model, by its id. */
const askings = signal<ReadonlyMap<string, Asking>>(new Map());

const session = () => me.value?.session_id ?? null;

export function askingOf(model: string): Asking | null {
  const found = askings.value.get(model);
  return found?.session === session() ? found : null;
}

function change(model: string, changes: Partial<Asking>): void {
  const known = askings.peek().get(model);
  if (known) askings.value = new Map(askings.peek()).set(model, { ...known, ...changes });
}

/** `onAsked` is called after each build that was asked for. */
export async function askFor(model: string, wanted: readonly Missing[], onAsked: () => void): Promise<void> {
  const begun: Asking = { wanted, outcomes: [], busy: true, stopped: false, session: session() };
  askings.value = new Map(askings.peek()).set(model, begun);
  const outcomes: Outcome[] = [];
  for (const one of wanted) {
    if (askings.peek().get(model)?.stopped || session() !== begun.session) break;
    try {
      outcomes.push({ of: one, build: await post<Build>("/builds", orderLike(one.like, one.target)) });
      onAsked();
    } catch (error) {
      outcomes.push({ of: one, refused: asProblem(error).detail });
    }
    change(model, { outcomes: [...outcomes] });
  }
  change(model, { busy: false });
}

/** Asks for no further ones. */
export function stopAsking(model: string): void {
  change(model, { stopped: true });
}

export function forgetAsking(model: string): void {
  const rest = new Map(askings.peek());
  rest.delete(model);
  askings.value = rest;
}

/** Whether all were asked for: nothing is left that somebody has to know. */
export function isDone({ busy, wanted, outcomes }: Asking): boolean {
  return !busy && outcomes.length === wanted.length && outcomes.every(({ build }) => build !== undefined);
}

/** "2 asked for, 1 refused, 3 left out." */
export function askingText({ busy, wanted, outcomes }: Asking): string {
  const refused = outcomes.filter((one) => one.refused !== undefined).length;
  const left = wanted.length - outcomes.length;
  const parts = [
    busy ? `${outcomes.length - refused} of ${wanted.length} asked for` : `${outcomes.length - refused} asked for`,
    refused > 0 && `${refused} refused`,
    !busy && left > 0 && `${left} left out`,
  ];
  return `${parts.filter(Boolean).join(", ")}.`;
}
