import { defineConfig, type Plugin } from "vite";

/** Everything comes from the server itself: no inline code, no inline style, no other host. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "worker-src 'self'",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'self'",
].join("; ");

/** Puts the policy into the built page. The development server injects styles inline, so it goes without. */
function contentSecurityPolicy(): Plugin {
  return {
    name: "content-security-policy",
    apply: "build",
    transformIndexHtml: () => [
      {
        tag: "meta",
        attrs: { "http-equiv": "Content-Security-Policy", content: CONTENT_SECURITY_POLICY },
        injectTo: "head-prepend",
      },
    ],
  };
}

/** What uPlot does as it is loaded, and instead: the browser's formatters take tens of milliseconds to start, and our charts
 * format by themselves. */
const WHEN_USED = {
  "const numFormatter = new Intl.NumberFormat(domEnv ? nav.language : 'en-US');": "let numFormatter;",
  "numFormatter.format(val)": "(numFormatter ??= new Intl.NumberFormat(nav.language)).format(val)",
  "const localTz = new Intl.DateTimeFormat().resolvedOptions().timeZone;": "",
  "tz == localTz": "tz == new Intl.DateTimeFormat().resolvedOptions().timeZone",
};

/** Throws where another version of uPlot has other code. */
function lazyFormatters(): Plugin {
  return {
    name: "lazy-formatters",
    apply: "build",
    transform: {
      filter: { id: /\/uPlot\.esm\.js$/ },
      handler: (code) =>
        Object.entries(WHEN_USED).reduce((whole, [before, after]) => {
          if (!whole.includes(before)) throw new Error(`uPlot has no "${before}" any more: look at vite.config.ts`);
          return whole.replace(before, after);
        }, code),
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [contentSecurityPolicy(), lazyFormatters()],
  worker: { format: "es" },
  build: {
    outDir: "../server/pock_server/web_dist",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            // What many views use, in one file: a phone asks for a view's few files, not for twenty of some hundred bytes.
            {
              name: "shared",
              test: /\/src\/([^/]*|api\/.*|components\/.*|views\/(?!versions)[^/]*)\.tsx?$/,
              minShareCount: 3,
              maxModuleSize: 10_000,
            },
          ],
        },
      },
    },
  },
  server: {
    proxy: {
      "/v1": "http://127.0.0.1:8080",
      "/readyz": "http://127.0.0.1:8080",
      "/openapi.json": "http://127.0.0.1:8080",
    },
  },
});
