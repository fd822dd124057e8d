/** The artifact's `manifest.json` (docs/reference/binary.md). The server passes it through, so it is typed here. */

export type Phase = "forward" | "backward" | "update";

export interface PlanNode {
  readonly index: number;
  readonly name: string;
  readonly op: string;
  readonly kernel: string;
  readonly flops: number;
  readonly bytes: number;
  readonly phase: Phase;
}

/** One value's place in the arena: bytes `offset … offset + nbytes`, alive from node `first` to node `last` inclusive. */
export interface Slot {
  readonly value: string;
  readonly offset: number;
  readonly nbytes: number;
  readonly first: number;
  readonly last: number;
  readonly kind: string;
}

export interface Program {
  readonly arena_bytes: number;
  readonly lower_bound_bytes: number;
  readonly nodes: readonly PlanNode[];
  readonly slots: readonly Slot[];
}

export interface Tensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly nbytes: number;
  readonly role: "param" | "state";
  readonly trained: "all" | "channels" | "frozen";
  readonly channels: readonly number[] | null;
}

export interface Summary {
  readonly arena_bytes: number;
  readonly lower_bound_bytes: number;
  readonly param_bytes: number;
  readonly state_bytes: number;
  readonly const_bytes: number;
  readonly input_bytes: number;
  readonly predicted_peak_bytes: number;
  readonly nodes_forward: number;
  readonly nodes_backward_dense: number;
  readonly nodes_backward: number;
  readonly kernels: number;
  readonly flops: { readonly forward: number; readonly backward: number };
  readonly trained_parameters: number;
}

export interface Port {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
}

export interface Artifact {
  readonly digest: string;
  readonly size: number;
  readonly build_id: string | null;
  readonly format: number;
  readonly name: string;
  readonly created_by: Readonly<Record<string, string>>;
  readonly target: { readonly name: string; readonly triple?: string; readonly cpu?: string };
  readonly recipe: unknown;
  readonly threads: number;
  readonly summary: Summary;
  readonly members: Readonly<Record<string, { readonly sha256: string; readonly size: number }>>;
  readonly programs: Readonly<Record<string, Program>>;
  readonly tensors: readonly Tensor[];
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
}
