import { fileURLToPath } from "node:url";
import { build, defineConfig, type Plugin } from "vite";

/** Code of uPlot's that runs as it is loaded: it opens the browser's tables of languages and time zones, which takes longer
 * than everything else in it. The page writes numbers and times itself. */
const TABLES: [string, string][] = [
  ["const numFormatter = new Intl.NumberFormat(domEnv ? nav.language : 'en-US');", "const numFormatter = { format: String };"],
  ["const localTz = new Intl.DateTimeFormat().resolvedOptions().timeZone;", "const localTz = undefined;"],
];

const withoutTables: Plugin = {
  name: "uplot-without-tables",
  transform(code, id) {
    if (!id.endsWith("/uPlot.esm.js")) return undefined;
    return TABLES.reduce((changed, [text, other]) => {
      if (!changed.includes(text)) this.error(`uPlot has no such line any more: ${text}`);
      return changed.replace(text, other);
    }, code);
  },
};

/** The styles within the HTML: a page is painted without waiting for them. The server names their digest in its policy. */
const stylesWithin: Plugin = {
  name: "styles-within",
  enforce: "post",
  generateBundle(_options, bundle) {
    const [html, styles] = [".html", ".css"].map((end) => Object.values(bundle).find((one) => one.fileName.endsWith(end)));
    if (html?.type !== "asset" || styles?.type !== "asset") this.error("the page has one HTML file and one of styles");
    const link = new RegExp(`<link rel="stylesheet"[^>]*${styles.fileName}">`);
    const page = String(html.source);
    if (!link.test(page)) this.error("the HTML doesn't name the styles");
    html.source = page.replace(link, () => `<style>${String(styles.source).trim()}</style>`);
    delete bundle[styles.fileName];
  },
};

/** The HTML names the code of all screens but that which comes with it: the page brings it while nothing else is to be done. */
const codeNamed: Plugin = {
  name: "code-named",
  enforce: "post",
  generateBundle(_options, bundle) {
    const files = Object.values(bundle);
    const html = files.find((one) => one.fileName.endsWith(".html"));
    if (html?.type !== "asset") this.error("the page has one HTML file");
    const chunks = files.filter((one) => one.type === "chunk");
    const first = new Set<string>();
    const collect = (name: string) => {
      if (first.has(name)) return;
      first.add(name);
      for (const one of chunks) if (one.fileName === name) one.imports.forEach(collect);
    };
    for (const one of chunks) if (one.isEntry) collect(one.fileName);
    const later = chunks.map((one) => one.fileName).filter((name) => !first.has(name)).sort();
    html.source = String(html.source).replace("</head>", `<meta name="code" content="${later.map((name) => `/ui/${name}`).join(" ")}" /></head>`);
  },
};

/** The reader of PDF, one script of its own: a frame without an origin loads no modules. */
const pdfFrame: Plugin = {
  name: "pdf-frame",
  async generateBundle() {
    const built = await build({
      configFile: false, logLevel: "error",
      build: { write: false, target: "es2022", lib: { entry: fileURLToPath(new URL("src/pdf-frame/frame.ts", import.meta.url)), formats: ["iife"], name: "frame" } },
    });
    const [script] = (built as { output: { code?: string }[] }[])[0]!.output;
    this.emitFile({ type: "asset", name: "pdf-frame.js", source: script!.code! });
  },
};

// The built files are committed: names and contents depend on the sources and the lock alone.
export default defineConfig({
  base: "/ui/",
  plugins: [withoutTables, stylesWithin, codeNamed, pdfFrame],
  build: {
    outDir: "../src/drumbeat/server/page/built",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    manifest: "manifest.json",
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    chunkSizeWarningLimit: 700,
    rolldownOptions: { checks: { pluginTimings: false } },
  },
});
