/** The frame around every view: navigation, and which view the address means. */

import { Empty, Page } from "./components/page";
import { route, type Route } from "./router";
import { apiKey, signOut } from "./session";
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
  const signedIn = apiKey.value !== null;
  const current = route.value;
  return (
    <>
      <header class="top">
        <a class="brand" href="#/">
          <img src="./favicon.svg" alt="" width="24" height="24" /> PockEngine
        </a>
        {signedIn && (
          <nav aria-label="Main">
            {NAVIGATION.map(({ text, href, views }) => (
              <a key={href} href={href} aria-current={views.includes(current.view) ? "page" : undefined}>
                {text}
              </a>
            ))}
          </nav>
        )}
        {signedIn && (
          <button type="button" class="button sign-out" onClick={() => signOut(null)}>
            Sign out
          </button>
        )}
      </header>
      {signedIn ? <View route={current} /> : <SignInView />}
    </>
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
