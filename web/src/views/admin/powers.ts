/** What scopes and roles allow, in words; the server decides. */

import type { Member } from "../../api/types";
import { may, type Scope } from "../../permission";

export const SCOPES: readonly (readonly [scope: Scope, allows: string])[] = [
  ["read", "See models, data, builds, devices, runs, rollouts and webhooks, and download what was made."],
  ["models:write", "Add, tag and delete models, data and recipes."],
  ["builds:write", "Request, cancel, tag and delete builds and searches."],
  ["runs:write", "Start, cancel and delete runs, benchmarks, campaigns, schedules and federations."],
  ["devices:admin", "Enrol, change and revoke devices; policies, agent releases, rollouts and webhooks."],
  ["keys:admin", "Add and change members, make and revoke keys, end sessions."],
  ["audit:read", "Read the audit log."],
];

type Role = Member["role"];

const VIEWER: readonly Scope[] = ["read"];
const DEVELOPER: readonly Scope[] = [...VIEWER, "models:write", "builds:write", "runs:write"];
const OPERATOR: readonly Scope[] = [...DEVELOPER, "devices:admin", "audit:read"];

export const ROLES: readonly Role[] = ["viewer", "developer", "operator", "admin"];

export const SCOPES_OF: Readonly<Record<Role, readonly Scope[]>> = {
  viewer: VIEWER,
  developer: DEVELOPER,
  operator: OPERATOR,
  admin: SCOPES.map(([scope]) => scope),
};

export const ROLE_ALLOWS: Readonly<Record<Role, string>> = {
  viewer: "looks",
  developer: "uploads, builds and runs, too",
  operator: "lets devices in and out, and reads the audit log, too",
  admin: "decides who else gets in, too",
};

/** Why this person may not give a key this scope, or null. */
export function whyNotGrant(scope: Scope, member: Member | null): string | null {
  if (!may(scope)) return "You lack it, and nobody can give what they lack.";
  if (member && !SCOPES_OF[member.role].includes(scope)) return `${member.name} is ${member.role}, which lacks it.`;
  return null;
}

/** Why this person may not deal with a role, or null. */
export function whyNotRole(role: Role): string | null {
  const lacking = SCOPES_OF[role].filter((scope) => !may(scope));
  if (lacking.length === 0) return null;
  return `A member who is ${role} can do more than your key, which lacks ${lacking.join(", ")}.`;
}
