/** Browsers that are signed in, and how they are signed out from afar. */

import { send } from "../../api/client";
import type { BrowserSession } from "../../api/types";
import { curl } from "../../commands";
import { Ago, Until } from "../../components/ago";
import { ConfirmButton } from "../../components/confirm_button";
import { Empty, Loaded, Section, TableFrame } from "../../components/page";
import { useList } from "../../data";
import * as format from "../../format";
import { me, signedOut } from "../../session";
import { More } from "../tables";
import { AdminPage } from "./frame";

export function SessionsView() {
  return (
    <AdminPage part="Sessions" command={curl("/sessions")}>
      <SessionList
        path="/sessions"
        title="Signed-in browsers"
        note="Of everybody in this workspace. A session ends on its own after 12 hours without use, after 7 days, or with its key."
      />
    </AdminPage>
  );
}

interface SessionListProps {
  readonly path: "/sessions" | "/me/sessions";
  readonly title: string;
  readonly note: string;
}

export function SessionList({ path, title, note }: SessionListProps) {
  const { of, more } = useList<BrowserSession>(path, 10_000);
  return (
    <Section title={title} note={note} command={curl(path)}>
      <Loaded of={of} what="sessions">
        {(sessions) =>
          sessions.length === 0 ? (
            <Empty title="No browser is signed in." />
          ) : (
            <SessionTable sessions={sessions} path={path} label={title} reload={of.reload} />
          )
        }
      </Loaded>
      <More more={more} />
    </Section>
  );
}

interface TableProps {
  readonly sessions: readonly BrowserSession[];
  readonly path: string;
  readonly label: string;
  readonly reload: () => void;
}

function SessionTable({ sessions, path, label, reload }: TableProps) {
  const own = me.value?.session_id;
  return (
    <TableFrame label={label}>
      <table>
        <thead>
          <tr>
            <th scope="col">Who</th>
            <th scope="col">Browser</th>
            <th scope="col">Address</th>
            <th scope="col">Signed in</th>
            <th scope="col">Last used</th>
            <th scope="col">Ends</th>
            <th scope="col">
              <span class="visually-hidden">End</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {sessions.map((session) => (
            <tr key={session.id}>
              <td class="wrap">
                {session.name} {session.id === own && <span class="tag">this browser</span>}
              </td>
              <td class="wrap" title={session.user_agent ?? ""}>
                {browserText(session.user_agent)}
              </td>
              <td>{session.address ?? format.NOTHING}</td>
              <td>
                <Ago time={session.created_at} />
              </td>
              <td>
                <Ago time={session.last_used_at} />
              </td>
              <td>
                <Until time={session.expires_at} />
              </td>
              <td class="row-action">
                <ConfirmButton
                  quiet
                  verb="End"
                  doing="Ending"
                  what={session.id === own ? "the session of this browser" : `the session of ${session.name}`}
                  warning={
                    session.id === own
                      ? "You are signed out here, in all tabs."
                      : "That browser has to sign in again with a key. What it was uploading can go on then."
                  }
                  act={() => send(`${path}/${session.id}`, { method: "DELETE" })}
                  why={null}
                  onDone={() => (session.id === own ? signedOut("You have ended this session.") : reload())}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

const BROWSERS: readonly (readonly [mark: RegExp, name: string])[] = [
  [/\bEdg\/(\d+)/, "Edge"],
  [/\bFirefox\/(\d+)/, "Firefox"],
  [/\b(?:Headless)?Chrome\/(\d+)/, "Chrome"],
  [/\bVersion\/(\d+)[\d.]* .*Safari\//, "Safari"],
];
const SYSTEMS: readonly (readonly [mark: RegExp, name: string])[] = [
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Windows/, "Windows"],
  [/Mac OS X/, "macOS"],
  [/Linux/, "Linux"],
];
const LONGEST = 60;

/** "Firefox 140 on Linux"; what is no known browser is told as it calls itself. */
export function browserText(agent: string | null): string {
  if (agent === null) return format.NOTHING;
  const system = SYSTEMS.find(([mark]) => mark.test(agent))?.[1];
  for (const [mark, name] of BROWSERS) {
    const version = mark.exec(agent)?.[1];
    if (version) return system ? `${name} ${version} on ${system}` : `${name} ${version}`;
  }
  return agent.length > LONGEST ? `${agent.slice(0, LONGEST)}…` : agent;
}
