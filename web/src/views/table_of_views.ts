/** Which view an address means. Views are fetched when they are first shown. */

import type { ComponentType } from "preact";

/** What every view is told: the parts of the address that its pattern left open, in order. */
export interface ViewProps {
  readonly id: string;
}

export interface View {
  /** Parts of the path; `:id` stands for any. */
  readonly pattern: string;
  /** The entry of the main navigation to which it belongs. */
  readonly section: string;
  readonly load: () => Promise<ComponentType<ViewProps>>;
}

export const SECTIONS: readonly { readonly name: string; readonly href: string }[] = [
  { name: "Overview", href: "#/" },
  { name: "Models", href: "#/models" },
  { name: "Data", href: "#/datasets" },
  { name: "Builds", href: "#/builds" },
  { name: "Fleet", href: "#/fleet" },
  { name: "Runs", href: "#/runs" },
  { name: "Compare", href: "#/compare" },
  { name: "Admin", href: "#/admin" },
];

export const VIEWS: readonly View[] = [
  { pattern: "", section: "Overview", load: () => import("./start").then((m) => m.StartView) },
  { pattern: "models", section: "Models", load: () => import("./models_list").then((m) => m.ModelsView) },
  { pattern: "models/:id", section: "Models", load: () => import("./model/model").then((m) => m.ModelView) },
  { pattern: "models/:id/scheme", section: "Models", load: () => import("./model/picker").then((m) => m.PickerView) },
  { pattern: "models/:id/graph", section: "Models", load: () => import("./model/graph").then((m) => m.GraphView) },
  { pattern: "datasets", section: "Data", load: () => import("./data/list").then((m) => m.DatasetsView) },
  { pattern: "datasets/:id", section: "Data", load: () => import("./data/dataset").then((m) => m.DatasetView) },
  { pattern: "builds", section: "Builds", load: () => import("./builds").then((m) => m.BuildsView) },
  { pattern: "builds/:id", section: "Builds", load: () => import("./build").then((m) => m.BuildView) },
  { pattern: "artifacts/:id", section: "Builds", load: () => import("./artifact").then((m) => m.ArtifactView) },
  { pattern: "fleet", section: "Fleet", load: () => import("./fleet/fleet").then((m) => m.FleetView) },
  { pattern: "devices/:id", section: "Fleet", load: () => import("./fleet/device/device").then((m) => m.DeviceView) },
  { pattern: "runs", section: "Runs", load: () => import("./builds").then((m) => m.RunsView) },
  { pattern: "runs/:id", section: "Runs", load: () => import("./run/run").then((m) => m.RunView) },
  { pattern: "campaigns", section: "Runs", load: () => import("./campaigns/list").then((m) => m.CampaignsView) },
  { pattern: "campaigns/:id", section: "Runs", load: () => import("./campaigns/campaign").then((m) => m.CampaignView) },
  { pattern: "compare", section: "Compare", load: () => import("./compare/compare").then((m) => m.CompareView) },
  { pattern: "admin", section: "Admin", load: () => import("./admin/access").then((m) => m.AccessView) },
  {
    pattern: "admin/members",
    section: "Admin",
    load: () => import("./admin/members/members").then((m) => m.MembersView),
  },
  { pattern: "admin/keys", section: "Admin", load: () => import("./admin/keys/keys").then((m) => m.KeysView) },
  { pattern: "admin/sessions", section: "Admin", load: () => import("./admin/sessions").then((m) => m.SessionsView) },
  { pattern: "admin/audit", section: "Admin", load: () => import("./admin/audit/audit").then((m) => m.AuditView) },
  { pattern: "admin/usage", section: "Admin", load: () => import("./admin/usage").then((m) => m.UsageView) },
  { pattern: "admin/tuning", section: "Admin", load: () => import("./admin/tuning/tuning").then((m) => m.TuningView) },
  {
    pattern: "admin/rollouts",
    section: "Admin",
    load: () => import("./admin/rollouts/rollouts").then((m) => m.RolloutsView),
  },
  {
    pattern: "admin/rollouts/:id",
    section: "Admin",
    load: () => import("./admin/rollouts/rollout").then((m) => m.RolloutView),
  },
  {
    pattern: "admin/webhooks",
    section: "Admin",
    load: () => import("./admin/webhooks/webhooks").then((m) => m.WebhooksView),
  },
  {
    pattern: "admin/webhooks/:id",
    section: "Admin",
    load: () => import("./admin/webhooks/webhook").then((m) => m.WebhookView),
  },
];

/** The view of a path and its open part; null where there is none. */
export function viewOf(path: readonly string[]): { readonly view: View; readonly id: string } | null {
  for (const view of VIEWS) {
    const parts = view.pattern.split("/").filter(Boolean);
    if (parts.length !== path.length || !parts.every((part, index) => part === ":id" || part === path[index])) continue;
    return { view, id: path[parts.indexOf(":id")] ?? "" };
  }
  return null;
}
