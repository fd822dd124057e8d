import { render } from "preact";
import { App } from "./app";
import { start } from "./start_session";
import { startRouter } from "./router";
import { startKeys } from "./shell/overlay";
import { inTurn } from "./turns";
import "uplot/dist/uPlot.min.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/loading.css";
import "./styles/forms.css";
import "./styles/shell.css";
import "./styles/timeline.css";

// Before the router, which must never see an address with a key in it.
start();
startRouter();
startKeys();
const root = document.getElementById("app");
if (root) inTurn(() => render(<App />, root));
