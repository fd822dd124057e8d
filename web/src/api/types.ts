/** The service's rows as docs/reference/api.md gives them. */

export type BuildState = "queued" | "running" | "succeeded" | "failed" | "cancelled";
export type RunState = "queued" | "leased" | "running" | "succeeded" | "failed" | "cancelled";
export type DeviceState = "online" | "offline" | "busy" | "quarantined" | "revoked";

export interface Failure {
  readonly code: number;
  readonly detail: string;
}

export interface Model {
  readonly id: string;
  readonly name: string;
  readonly digest: string;
  readonly size: number;
  readonly created_at: string;
}

export interface Dataset {
  readonly id: string;
  readonly name: string;
  readonly digest: string;
  readonly size: number;
  readonly samples: number;
  readonly tensors: readonly { readonly name: string; readonly dtype: string; readonly shape: readonly number[] }[];
  readonly created_at: string;
}

export interface Target {
  readonly name: string;
  readonly description?: string;
  readonly triple?: string;
}

export interface BuildProgress {
  readonly stage: string;
  readonly done: number;
  readonly total: number;
  readonly fraction: number;
}

export interface Build {
  readonly id: string;
  readonly model_id: string;
  readonly model_name: string;
  readonly name: string;
  readonly target: string;
  readonly threads: number | null;
  readonly recipe: unknown;
  readonly state: BuildState;
  readonly progress: BuildProgress | null;
  readonly queue_position: number | null;
  readonly summary: Readonly<Record<string, unknown>> | null;
  readonly artifact_digest: string | null;
  readonly failure: Failure | null;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly finished_at: string | null;
}

export interface Device {
  readonly id: string;
  readonly name: string;
  readonly pool: string | null;
  readonly target: string | null;
  readonly state: DeviceState;
  readonly last_seen_at: string | null;
  readonly facts: Readonly<Record<string, unknown>>;
  readonly agent_version: string | null;
  readonly current_run_id: string | null;
  readonly created_at: string;
}

export interface Run {
  readonly id: string;
  readonly build_id: string;
  readonly device_id: string;
  readonly device_name: string;
  readonly target: string;
  readonly dataset_id: string;
  readonly entry: "train" | "eval" | "bench";
  readonly steps: number;
  readonly state: RunState;
  readonly attempt: number;
  readonly queue_position: number | null;
  readonly progress: { readonly step: number; readonly steps: number; readonly loss: number | null } | null;
  readonly report: RunReport | null;
  readonly weights_digest: string | null;
  readonly failure: Failure | null;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly finished_at: string | null;
}

export interface Step {
  readonly step: number;
  readonly loss: number | null;
  readonly ms: number;
}

/** What the binary reports about one entry (docs/reference/binary.md). */
export interface Report {
  readonly entry: string;
  readonly target: string;
  readonly threads: number;
  readonly steps: number;
  readonly loss: readonly number[];
  readonly step_ms?: { readonly median: number; readonly p10: number; readonly p90: number };
  readonly cold_start_ms?: number;
  readonly peak_rss_bytes?: number;
  readonly arena_bytes?: number;
  readonly param_bytes?: number;
  readonly state_bytes?: number;
  readonly predicted_peak_bytes?: number;
  readonly samples?: number;
  readonly accuracy?: number;
  readonly kernels?: readonly KernelTime[];
}

export interface KernelTime {
  readonly name: string;
  readonly kernel: string;
  readonly ms: number;
  readonly flops: number;
  readonly bytes: number;
}

export interface RunReport {
  readonly train: Report | null;
  readonly eval_before: Report | null;
  readonly eval_after: Report | null;
  readonly health?: Readonly<Record<string, unknown>>;
}

export const BUILD_ENDED: readonly BuildState[] = ["succeeded", "failed", "cancelled"];
export const RUN_ENDED: readonly RunState[] = ["succeeded", "failed", "cancelled"];
