import { render } from "preact";
import { App } from "./app";
import { restoreSession } from "./session";
import { startRouter } from "./router";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/timeline.css";

restoreSession();
startRouter();
const root = document.getElementById("app");
if (root) render(<App />, root);
