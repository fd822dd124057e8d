/** What the person who is signed in may do, with their own keys and browsers. */

import { curl } from "../../commands";
import { Ago, Until } from "../../components/ago";
import { Facts } from "../../components/figures";
import { Section } from "../../components/page";
import { may } from "../../permission";
import { me } from "../../session";
import { Badge } from "../../components/tone_badge";
import { AdminPage } from "./frame";
import { KeyList } from "./keys/keys";
import { ROLE_ALLOWS, SCOPES } from "./powers";
import { SessionList } from "./sessions";

export function AccessView() {
  const who = me.value;
  if (!who) return null;
  return (
    <AdminPage part="Your access" command={curl("/me")}>
      <Section title="Who you are">
        <Facts
          items={[
            ["Name", who.name],
            ["Role", who.member ? `${who.member.role}: ${ROLE_ALLOWS[who.member.role]}` : "none: a key of its own"],
            ["Workspace", who.workspace.name],
            ["Key", who.key.name],
            [
              "This session ends",
              <>
                <Until time={who.expires_at} /> at the latest
              </>,
            ],
            ...(who.member ? ([["Member since", <Ago time={who.member.created_at} />]] as const) : []),
          ]}
        />
        <h3>What you may do</h3>
        <ul class="powers">
          {SCOPES.map(([scope, allows]) => (
            <li key={scope} class={may(scope) ? "" : "scope-closed"}>
              <Badge tone={may(scope) ? "good" : "quiet"} text={may(scope) ? "yes" : "no"} />
              <span class="scope-name mono">{scope}</span>
              <span>{allows}</span>
            </li>
          ))}
        </ul>
      </Section>
      <KeyList
        path="/me/api-keys"
        title="Your keys"
        note={who.member ? "All keys of you as a member." : "Your key has no member, so it is the only one."}
      />
      <SessionList path="/me/sessions" title="Your browsers" note="Signed in with your keys." />
    </AdminPage>
  );
}
