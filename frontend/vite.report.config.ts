import { resolve } from "node:path";
import { defineConfig } from "vite";
import { treeWalksOnly } from "./vite.plugins.ts";

const here = import.meta.dirname;

// The script of a report: classic, one file, its worker inside. Built after the tabs, into the same folder.
export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  resolve: {
    alias: [
      {
        find: /^.*\/spawn_layout_worker$/,
        replacement: resolve(here, "src/graph/spawn_layout_worker.inline.ts"),
      },
    ],
  },
  worker: { plugins: () => [treeWalksOnly] },
  build: {
    target: "es2022",
    outDir: resolve(here, process.env.TBPS_STATIC_DIR ?? "../tb_plugin_structure/static"),
    emptyOutDir: false,
    modulePreload: false,
    lib: {
      entry: resolve(here, "src/entries/report.tsx"),
      formats: ["iife"],
      name: "report",
      fileName: () => "report.js",
    },
  },
});
