/** Letting a device in: a token, the command that uses it, and the word that the device has joined. */

import { useState } from "preact/hooks";
import { type Page, post } from "../../../api/client";
import type { Device, EnrolmentToken } from "../../../api/types";
import { curlPost, quote } from "../../../commands";
import { At } from "../../../components/ago";
import { Command, CopyButton } from "../../../components/copy";
import { Dialog } from "../../../components/dialog";
import { StateBadge } from "../../../components/badge";
import { ProblemBox } from "../../../components/page";
import { asProblem, useResource } from "../../../data";
import { useChanges, useClock } from "../../../hooks";
import { Needs, whyNot } from "../../../permission";
import { address, link, setQuery } from "../../../router";
import { labelsOf } from "../labels";
import { QrCode } from "./qr";

const JOINED_MS = 5000;

export function EnrolButton() {
  const why = whyNot("devices:admin");
  return (
    <button
      type="button"
      class="button button-primary"
      disabled={why !== null}
      title={why ?? ""}
      onClick={() => setQuery({ enrol: "1" })}
    >
      Enrol a device
    </button>
  );
}

/** Open where the address asks for it. */
export function Enrolment() {
  const [token, setToken] = useState<Made | null>(null);
  if (address.value?.query.get("enrol") !== "1") return null;
  const close = () => {
    setToken(null);
    setQuery({ enrol: null });
  };
  return (
    <Dialog title="Enrol a device" wide onClose={close}>
      {token ? (
        <Waiting key={token.id} made={token} again={() => setToken(null)} close={close} />
      ) : (
        <Ask onMade={setToken} close={close} />
      )}
    </Dialog>
  );
}

interface Made extends EnrolmentToken {
  /** The service as the device reaches it. */
  readonly url: string;
}

/** Where this page was loaded from, with the prefix that a proxy gives it. */
const here = () => new URL(".", location.href).href.replace(/\/$/, "");

/** Whether only this machine itself can mean the service by this address. */
export function isOfThisMachine(url: string): boolean {
  return /^https?:\/\/(localhost|127\.[\d.]+|\[::1\])(:|\/|$)/.test(url);
}

const AT_FIRST = { name: "", pool: "default", labels: "" };

function Ask({ onMade, close }: { readonly onMade: (made: Made) => void; readonly close: () => void }) {
  const [wishes, setWishes] = useState(AT_FIRST);
  const [url, setUrl] = useState(here);
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const wish = (name: keyof typeof AT_FIRST) => (event: { currentTarget: HTMLInputElement }) =>
    setWishes({ ...wishes, [name]: event.currentTarget.value });
  const { labels, problem } = labelsOf(wishes.labels);
  const order = {
    ...(wishes.name.trim() && { name: wishes.name.trim() }),
    pool: wishes.pool.trim() || "default",
    ...(Object.keys(labels).length > 0 && { labels }),
  };
  const submit = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    post<EnrolmentToken>("/enrollment-tokens", order)
      .then((made) => onMade({ ...made, url: url.trim() }), setFailure)
      .finally(() => setBusy(false));
  };
  return (
    <form onSubmit={submit}>
      <p>
        A token lets one device in, once, within 15 minutes. <code>pock-agent</code> uses it on the device, which makes
        a key of its own.
      </p>
      <Needs scope="devices:admin">
        <div class="form-row">
          <label class="field">
            <span>Name (empty: as the device calls itself)</span>
            <input type="text" value={wishes.name} maxLength={200} onInput={wish("name")} />
          </label>
          <label class="field">
            <span>Pool</span>
            <input type="text" value={wishes.pool} maxLength={200} onInput={wish("pool")} />
          </label>
          <label class="field">
            <span>Labels, such as room=attic, rack=3</span>
            <input type="text" value={wishes.labels} maxLength={2000} onInput={wish("labels")} />
          </label>
        </div>
        <label class="field">
          <span>Address of the service, as the device reaches it</span>
          <input
            type="text"
            inputMode="url"
            required
            pattern="https?://.+"
            value={url}
            maxLength={500}
            onInput={(event) => setUrl(event.currentTarget.value)}
          />
        </label>
        {isOfThisMachine(url) && (
          <p class="note">
            Only this machine reaches that address. For another device, put in the name or number of this machine in
            your network.
          </p>
        )}
        {problem !== null && <p class="enrol-wrong">{problem}</p>}
        {failure !== null && <ProblemBox problem={asProblem(failure)} />}
        <div class="actions">
          <button type="submit" class="button button-primary" disabled={busy || problem !== null}>
            Make the command
          </button>
          <CopyButton text={curlPost("/enrollment-tokens", order)} of="making an enrolment token" />
        </div>
      </Needs>
      <Close close={close} />
    </form>
  );
}

interface WaitingProps {
  readonly made: Made;
  readonly again: () => void;
  readonly close: () => void;
}

function Waiting({ made, again, close }: WaitingProps) {
  const path = `/devices?token_id=${made.id}&facts=false&limit=1`;
  const joined = useResource<Page<Device>>(path, JOINED_MS);
  useChanges("devices", joined.reload);
  const device = joined.data?.items[0];
  const command = `pock-agent enroll ${quote(made.url)} ${made.token} && pock-agent run`;
  if (device)
    return (
      <>
        <div role="status" class="enrol-joined">
          <p>
            <strong>
              <a href={link.device(device.id)}>{device.name}</a> joined
            </strong>{" "}
            <StateBadge state={device.state} />
          </p>
          <p>
            {[device.target, `pool ${device.pool}`, device.agent_version && `agent ${device.agent_version}`]
              .filter(Boolean)
              .join(", ")}
          </p>
        </div>
        <div class="actions">
          <button type="button" class="button button-primary" onClick={again}>
            Enrol another
          </button>
        </div>
        <Close close={close} />
      </>
    );
  return (
    <>
      <div class="enrol-parts">
        <div>
          <h3>On the device</h3>
          <Command text="pip install pock-agent" of="installing the agent" />
          <Command text={command} of="enrolling the device" />
          <p class="note">
            As a service that starts with the machine: <code>pock-agent install</code> in place of{" "}
            <code>pock-agent run</code>. The token is shown here only.
          </p>
        </div>
        <figure class="enrol-code">
          <QrCode text={command} label="The command that enrols the device, as a QR code" />
          <figcaption>The same command, for a phone with Termux.</figcaption>
        </figure>
      </div>
      <p role="status" class="enrol-waiting">
        <Remaining until={made.expires_at} />
      </p>
      {joined.problem && <ProblemBox problem={joined.problem} retry={joined.reload} />}
      <div class="actions">
        <button type="button" class="button" onClick={again}>
          Make another
        </button>
      </div>
      <Close close={close} />
    </>
  );
}

/** To the minute until the last one, as it is read aloud whenever it changes. */
function Remaining({ until }: { readonly until: string }) {
  const ends = Date.parse(until);
  const left = useClock((now) => {
    const seconds = (ends - now) / 1000;
    if (seconds <= 0) return "";
    return seconds < 90 ? "about a minute" : `${Math.round(seconds / 60)} minutes`;
  }).value;
  if (left === "") return <>The token has ended without a device. Make another.</>;
  return (
    <>
      Waiting for the device. The token is good for {left}, until <At time={until} clock />.
    </>
  );
}

function Close({ close }: { readonly close: () => void }) {
  return (
    <button type="button" class="dialog-close" aria-label="Close" onClick={close}>
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
        <path d="M3.5 3.5l9 9m0-9l-9 9" fill="none" stroke="currentColor" stroke-width="1.6" />
      </svg>
    </button>
  );
}
