/** Uploads of this tab: they go on while the person looks at other views. */

import { signal } from "@preact/signals";
import { post } from "../api/client";
import type { Dataset, Model } from "../api/types";
import { asProblem, queries } from "../data";
import { link } from "../router";
import type { Kind, Planned } from "./plan";
import { PHASES_ENDED, type Phase, Transfer, type World } from "./transfer";
import { world } from "./world";

/** One model or dataset on its way: its files one after the other, then its entry in the service. */
export class Job {
  private readonly transfers: readonly Transfer[];
  phase: Phase | "registering" = "waiting";
  why: string | null = null;
  /** Where it is shown, once it is there. */
  href: string | null = null;
  version: number | null = null;
  private current = 0;

  constructor(
    readonly kind: Kind,
    readonly name: string,
    private readonly planned: Planned,
    outside: World = world,
  ) {
    const files = [planned.file, ...planned.external.map(({ file }) => file)];
    this.transfers = files.map((file) => new Transfer(file, outside, () => this.follow()));
  }

  get size(): number {
    return this.transfers.reduce((sum, { file }) => sum + file.size, 0);
  }

  get file(): File {
    return this.transfers[this.current]?.file ?? this.planned.file;
  }

  /** Bytes that are done with, of the file that is hashed or of all. */
  get done(): number {
    return this.transfers.reduce((sum, { progress, file }) => {
      if (progress.phase === "done") return sum + file.size;
      return sum + (progress.phase === "hashing" ? 0 : progress.done);
    }, 0);
  }

  get hashed(): number {
    const transfer = this.transfers[this.current];
    return transfer?.progress.phase === "hashing" ? transfer.progress.done / Math.max(1, transfer.file.size) : 0;
  }

  get bytesPerSecond(): number | null {
    return this.transfers[this.current]?.progress.bytesPerSecond ?? null;
  }

  /** Seconds until everything has arrived, at the present speed. */
  get secondsLeft(): number | null {
    const speed = this.bytesPerSecond;
    return this.phase === "sending" && speed ? (this.size - this.done) / speed : null;
  }

  /** Nothing had to be sent: the service had all of it. */
  get known(): boolean {
    return this.transfers.every(({ progress }) => progress.known);
  }

  get ended(): boolean {
    return this.phase !== "registering" && PHASES_ENDED.includes(this.phase);
  }

  async run(): Promise<void> {
    this.show("waiting");
    for (const [index, transfer] of this.transfers.entries()) {
      this.current = index;
      if (transfer.progress.phase !== "done") await transfer.run();
      if (transfer.progress.phase !== "done") return;
    }
    await this.register();
  }

  pause(): void {
    this.transfers[this.current]?.pause();
  }

  cancel(): void {
    if (this.phase === "registering" || this.phase === "done") return;
    for (const transfer of this.transfers) transfer.cancel();
    this.show("cancelled");
  }

  private follow(): void {
    const progress = this.transfers[this.current]?.progress;
    if (!progress || this.phase === "cancelled") return;
    this.why = progress.why;
    // The end of one file is not the end of the job.
    this.show(progress.phase === "done" ? "sending" : progress.phase);
  }

  private async register(): Promise<void> {
    this.show("registering");
    const [main, ...others] = this.transfers.map(({ digest }) => digest);
    const external = Object.fromEntries(this.planned.external.map(({ name }, index) => [name, others[index]]));
    const body = { name: this.name, digest: main };
    try {
      const made =
        this.kind === "model"
          ? await post<Model>("/models", { ...body, external })
          : await post<Dataset>("/datasets", body);
      this.href = this.kind === "model" ? link.model(made.id) : link.dataset(made.id);
      this.version = made.version;
      this.show("done");
      void queries.invalidateQueries();
    } catch (error) {
      this.why = asProblem(error).detail;
      this.show("failed");
    }
  }

  private show(phase: Job["phase"]): void {
    this.phase = phase;
    if (phase !== "failed" && phase !== "paused" && phase !== "lost") this.why = null;
    jobs.value = [...jobs.peek()];
  }
}

export const jobs = signal<readonly Job[]>([]);

export function begin(planned: Planned, name: string): void {
  const job = new Job(planned.kind, name, planned);
  jobs.value = [...jobs.peek(), job];
  void job.run();
}

export function dismiss(job: Job): void {
  jobs.value = jobs.peek().filter((other) => other !== job);
}

addEventListener("beforeunload", (event) => {
  if (jobs.peek().some((job) => !job.ended)) event.preventDefault();
});
