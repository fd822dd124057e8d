/** The frame around every view: navigation, and which view the address means. */

import { Empty, Loading, Page, ProblemBox } from "./components/page";
import { Who } from "./components/who";
import { route, type Route } from "./router";
import { me } from "./session";
import { startProblem, tryAgain } from "./start_session";
import { ArtifactView } from "./views/artifact";
import { BuildView } from "./views/build";
import { BuildsView, RunsView } from "./views/builds";
import { DeviceView } from "./views/device";
import { FleetView } from "./views/fleet";
import { ModelsView, ModelView } from "./views/models";
import { RunView } from "./views/run";
import { SignInView } from "./views/sign_in";
import { StartView } from "./views/start";

const NAVIGATION: readonly {
  readonly text: string;
  readonly href: string;
  readonly views: readonly Route["view"][];
}[] = [
  { text: "Overview", href: "#/", views: ["start"] },
  { text: "Fleet", href: "#/fleet", views: ["fleet", "device"] },
  { text: "Models", href: "#/models", views: ["models", "model"] },
  { text: "Builds", href: "#/builds", views: ["builds", "build", "artifact"] },
  { text: "Runs", href: "#/runs", views: ["runs", "run"] },
];

export function App() {
  const who = me.value;
  const current = route.value;
  return (
    <>
      <header class="top">
        <a class="brand" href="#/">
          <img src="./favicon.svg" alt="" width="24" height="24" /> PockEngine
        </a>
        {who && (
          <nav aria-label="Main">
            {NAVIGATION.map(({ text, href, views }) => (
              <a key={href} href={href} aria-current={views.includes(current.view) ? "page" : undefined}>
                {text}
              </a>
            ))}
          </nav>
        )}
        {who && <Who who={who} />}
      </header>
      {who ? <View route={current} /> : who === null ? <SignInView /> : <Starting />}
    </>
  );
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

/** The key makes a new address a new view: nothing of the old one's state stays. */
function View({ route: current }: { readonly route: Route }) {
  switch (current.view) {
    case "start":
      return <StartView key="start" />;
    case "fleet":
      return <FleetView key="fleet" />;
    case "models":
      return <ModelsView key="models" />;
    case "builds":
      return <BuildsView key="builds" />;
    case "runs":
      return <RunsView key="runs" />;
    case "device":
      return <DeviceView key={current.id} id={current.id} />;
    case "model":
      return <ModelView key={current.id} id={current.id} />;
    case "build":
      return <BuildView key={current.id} id={current.id} />;
    case "artifact":
      return <ArtifactView key={current.id} digest={current.id} />;
    case "run":
      return <RunView key={current.id} id={current.id} />;
    case "missing":
      return (
        <Page key="missing" title="Nothing here">
          <Empty title="This address leads nowhere.">
            <p>
              Go to the <a href="#/">overview</a>.
            </p>
          </Empty>
        </Page>
      );
  }
}
