/** What can be done with work that goes on, such as pausing it: pure data. */

export interface Deed<State extends string> {
  readonly verb: string;
  readonly doing: string;
  /** The end of the address that it is asked of. */
  readonly path: string;
  /** In which states it can be done. */
  readonly from: readonly State[];
  readonly warning: string;
}

/** Why a deed cannot be done in this state, or null. */
export function whyNotNow<State extends string>(deed: Deed<State>, state: State): string | null {
  if (deed.from.includes(state)) return null;
  return `It is ${state}; only one that is ${deed.from.join(" or ")} can be told this.`;
}
