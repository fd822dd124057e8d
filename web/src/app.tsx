/** The frame around every view: navigation, what is wrong with the connection, and the view that the address means. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Empty, Loading, Page, ProblemBox } from "./components/page";
import { LostBanner } from "./components/lost";
import { Who } from "./components/who";
import { asProblem } from "./data";
import { address } from "./router";
import { me } from "./session";
import { FindButton, Overlays } from "./shell/shell";
import { startProblem, tryAgain } from "./start_session";
import { inTurn } from "./turns";
import { SignInView } from "./views/sign_in";
import { SECTIONS, type View, viewOf, type ViewProps } from "./views/table_of_views";

export function App() {
  const who = me.value;
  const found = viewOf(address.value?.path ?? ["nowhere"]);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href="#/">
          <img src="./favicon.svg" alt="" width="24" height="24" /> <span class="brand-name">PockEngine</span>
        </a>
        {who && (
          <nav aria-label="Main">
            {SECTIONS.map(({ name, href }) => (
              <a key={href} href={href} aria-current={found?.view.section === name ? "page" : undefined}>
                {name}
              </a>
            ))}
          </nav>
        )}
        {who && <FindButton />}
        {who && <Who who={who} />}
      </header>
      {who ? (
        found ? (
          <Shown key={`${who.session_id} ${found.view.pattern} ${found.id}`} view={found.view} id={found.id} />
        ) : (
          <Missing />
        )
      ) : who === null ? (
        <SignInView />
      ) : (
        <Starting />
      )}
      {who && <Overlays />}
      <LostBanner />
    </>
  );
}

/** Past the navigation, without touching the address, which is the view's. */
function skip(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>("#main h1")?.focus();
}

/** Until the server has said whether this browser is signed in. */
function Starting() {
  const problem = startProblem.value;
  return (
    <main id="main">
      {problem ? <ProblemBox problem={problem} retry={tryAgain} /> : <Loading what="your session" />}
    </main>
  );
}

const fetched = new Map<View, ComponentType<ViewProps>>();

/** The key makes a new address or session a new view: nothing of the old one's state stays. */
function Shown({ view, id }: { readonly view: View; readonly id: string }) {
  const [failure, setFailure] = useState<unknown>(null);
  const [, setArrived] = useState(false);
  const Known = fetched.get(view);
  useEffect(() => {
    if (Known) return;
    return inTurn(() => {
      view.load().then((component) => {
        fetched.set(view, component);
        setArrived(true);
      }, setFailure);
    });
  }, [view, Known]);
  if (Known) return <Known id={id} />;
  return (
    <main id="main">
      {failure === null ? (
        <Loading what="the view" />
      ) : (
        <ProblemBox problem={asProblem(failure)} retry={() => location.reload()} />
      )}
    </main>
  );
}

function Missing() {
  return (
    <Page title="Nothing here">
      <Empty title="This address leads nowhere.">
        <p>
          Go to the <a href="#/">overview</a>.
        </p>
      </Empty>
    </Page>
  );
}
