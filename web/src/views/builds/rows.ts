/** Builds of one model as a matrix: what is trained by target. Pure functions. */

import type { Build } from "../../api/types";

export interface Row {
  readonly scheme: string;
  /** The newest build of the scheme: what is missing is built with its recipe. */
  readonly newest: Build;
  /** By target, the newest first. */
  readonly cells: ReadonlyMap<string, readonly Build[]>;
}

export interface Matrix {
  readonly targets: readonly string[];
  readonly rows: readonly Row[];
}

/** What a build trains, as its row is called. */
export function schemeOf(build: Build): string {
  return build.recipe_version?.name ?? (build.name || build.model_name);
}

/** `builds` come newest first; so do the rows. `further` targets are columns, too. */
export function matrixOf(builds: readonly Build[], further: readonly string[] = []): Matrix {
  const rows = new Map<string, { newest: Build; cells: Map<string, Build[]> }>();
  for (const build of builds) {
    const scheme = schemeOf(build);
    const row = rows.get(scheme) ?? { newest: build, cells: new Map<string, Build[]>() };
    rows.set(scheme, row);
    row.cells.set(build.target, [...(row.cells.get(build.target) ?? []), build]);
  }
  const built = [...new Set(builds.map(({ target }) => target))].sort();
  const targets = [...built, ...further.filter((target) => !built.includes(target))];
  return { targets, rows: [...rows].map(([scheme, row]) => ({ scheme, ...row })) };
}

/** Whether a cell's build has an older recipe than the newest build of its row. */
export function isOlder(build: Build, { newest }: Row): boolean {
  return sorted(build.recipe) !== sorted(newest.recipe);
}

/** JSON with the keys of each object in order: two recipes that say the same may name them in another one. */
function sorted(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    part !== null && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

/** The targets for which a scheme was not built with its newest recipe, nor is being built. */
export function missingOf(row: Row, targets: readonly string[]): string[] {
  return targets.filter((target) => {
    const newest = row.cells.get(target)?.[0];
    return newest === undefined || isOlder(newest, row);
  });
}

/** A build that is missing. */
export interface Missing {
  readonly scheme: string;
  readonly target: string;
  /** The newest build of the scheme, whose recipe and choices it gets. */
  readonly like: Build;
}

/** All that rows lack, row by row. */
export function allMissing(rows: readonly Row[], targets: readonly string[]): Missing[] {
  return rows.flatMap((row) =>
    missingOf(row, targets).map((target) => ({ scheme: row.scheme, target, like: row.newest })),
  );
}

/** What asks for a build like another one: the same choices, for a target. */
export function orderLike(build: Build, target: string): Record<string, unknown> {
  const threads = build.target === target ? { threads: build.threads } : {};
  const { model_id, recipe, name, priority, tune } = build;
  return { model_id, recipe, target, ...threads, ...(name ? { name } : {}), priority, tune };
}
