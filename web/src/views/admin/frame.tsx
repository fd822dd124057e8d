/** The frame of the parts of Admin: which there are, and why one is closed to this person. */

import type { ComponentChildren } from "preact";
import { Page } from "../../components/page";
import { whyNot } from "../../permission";
import { PARTS } from "./parts";
import "../../styles/admin.css";

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
