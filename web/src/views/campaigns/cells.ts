/** The cells of a campaign, read page by page; then only the pages that may have changed are read again. */

import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Problem } from "../../api/client";
import type { CampaignCell } from "../../api/types";
import { asProblem } from "../../data";
import { merged, openPages, PAGE } from "./grid";

/** After so many pages were read, so much rest for each: a campaign of thousands of cells asks for much. */
const REST_MS = 250;

export interface Cells {
  readonly cells: readonly CampaignCell[];
  /** Every page was read once. */
  readonly complete: boolean;
  readonly problem: Problem | null;
  readonly reload: () => void;
}

export function useCells(path: string): Cells {
  const [cells, setCells] = useState<readonly CampaignCell[]>([]);
  const [complete, setComplete] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const reader = useRef<Reader | null>(null);
  useEffect(() => {
    const mine = new Reader(path, { cells: setCells, complete: () => setComplete(true), problem: setProblem });
    reader.current = mine;
    mine.read();
    return () => mine.end();
  }, [path]);
  return { cells, complete, problem, reload: () => reader.current?.read() };
}

interface Told {
  readonly cells: (cells: readonly CampaignCell[]) => void;
  readonly complete: () => void;
  readonly problem: (problem: Problem | null) => void;
}

/** One at a time: what is asked for while it reads is read once it is through. */
class Reader {
  private cells: readonly CampaignCell[] = [];
  private complete = false;
  private reading = false;
  private again = false;
  private pagesRead = 0;
  private readonly abort = new AbortController();

  constructor(
    private readonly path: string,
    private readonly told: Told,
  ) {}

  end(): void {
    this.abort.abort();
  }

  read(): void {
    if (this.reading) {
      this.again = true;
      return;
    }
    this.reading = true;
    this.pagesRead = 0;
    this.pages()
      .then(
        () => this.told.problem(null),
        (error: unknown) => {
          if (!this.abort.signal.aborted) this.told.problem(asProblem(error));
        },
      )
      .finally(() => setTimeout(() => this.rested(), this.pagesRead * REST_MS));
  }

  private rested(): void {
    this.reading = false;
    if (!this.again || this.abort.signal.aborted) return;
    this.again = false;
    this.read();
  }

  private async pages(): Promise<void> {
    if (this.complete) {
      for (const page of openPages(this.cells)) await this.page(page);
      return;
    }
    for (let page = Math.floor(this.cells.length / PAGE); (await this.page(page)) === PAGE; page += 1);
    this.complete = true;
    this.told.complete();
  }

  private async page(page: number): Promise<number> {
    const path = `${this.path}/cells?after=${page * PAGE - 1}`;
    const { items } = await get<{ items: CampaignCell[] }>(path, this.abort.signal);
    this.pagesRead += 1;
    const cells = merged(this.cells, items);
    if (cells !== this.cells) this.told.cells((this.cells = cells));
    return items.length;
  }
}
