/** The frame of the parts of Admin: which there are, and why one is closed to this person. */

import type { ComponentChildren } from "preact";
import { Page } from "../../components/page";
import { type Scope, whyNot } from "../../permission";
import "../../styles/admin.css";

/** What each needs to be looked at; null where everybody may. */
const PARTS: readonly { readonly name: string; readonly href: string; readonly scope: Scope | null }[] = [
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

interface AdminProps {
  readonly part: string;
  readonly command?: string;
  readonly children: ComponentChildren;
}

export function AdminPage({ part, command, children }: AdminProps) {
  const scope = PARTS.find(({ name }) => name === part)?.scope ?? null;
  const reason = scope === null ? null : whyNot(scope);
  return (
    <Page kind="Admin" title={part} {...(command && reason === null ? { command } : {})}>
      <nav class="admin-nav" aria-label="Admin">
        {PARTS.map(({ name, href, scope: needed }) => (
          <a
            key={href}
            href={href}
            aria-current={name === part ? "page" : undefined}
            title={(needed && whyNot(needed)) ?? undefined}
          >
            {name}
          </a>
        ))}
      </nav>
      {reason === null ? children : <p class="needs-reason">{reason}</p>}
    </Page>
  );
}
