/** The parts of Admin, and what each needs to be looked at; null where everybody may. */

import type { Scope } from "../../permission";

export const PARTS: readonly { readonly name: string; readonly href: string; readonly scope: Scope | null }[] = [
  { name: "Your access", href: "#/admin", scope: null },
  { name: "Members", href: "#/admin/members", scope: "keys:admin" },
  { name: "API keys", href: "#/admin/keys", scope: "keys:admin" },
  { name: "Sessions", href: "#/admin/sessions", scope: "keys:admin" },
  { name: "Audit log", href: "#/admin/audit", scope: "audit:read" },
  { name: "Usage", href: "#/admin/usage", scope: "read" },
  { name: "Tuning", href: "#/admin/tuning", scope: "read" },
  { name: "Rollouts", href: "#/admin/rollouts", scope: "read" },
  { name: "Webhooks", href: "#/admin/webhooks", scope: "read" },
];
