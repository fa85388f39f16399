import { defineConfig } from "vite";

// The built files are committed: names and contents depend on the sources and the lock alone.
export default defineConfig({
  base: "/ui/",
  build: {
    outDir: "../src/drumbeat/server/page/built",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    chunkSizeWarningLimit: 700,
  },
});
