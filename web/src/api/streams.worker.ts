/** Shared by all tabs of a browser: it holds their one event stream. */

import { Exchange, type FromTab, SIGN_OF_LIFE_MS } from "./exchange";

const exchange = new Exchange();
setInterval(() => exchange.sweep(), SIGN_OF_LIFE_MS);

addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0];
  if (!port) return;
  const hear = exchange.admit((message) => port.postMessage(message));
  port.onmessage = ({ data }: MessageEvent<FromTab>) => hear(data);
});
