import { resolve } from "node:path";
import { defineConfig } from "vitest/config";
import { bareImports, treeWalksOnly } from "./vite.plugins.ts";

const here = import.meta.dirname;

// TensorBoard serves one flat folder below each tab's address, so everything is relative and lies side by
// side. Hashes are hexadecimal: base64 hashes may end in "-", which the backend's cache rule would not see.
const names = {
  chunkFileNames: "[name]-[hash].js",
  assetFileNames: "[name]-[hash][extname]",
  hashCharacters: "hex" as const,
};

/**
 * What the first picture of a graph needs lies in one file, for small ones compress worse. What these modules take from
 * elsewhere is in a file of its own: it would come along otherwise, and other tabs would load the graph for it.
 */
const firstPicture =
  /src\/graph\/(camera|canvas_pen|card|card_painter|card_sizes|colouring|diff_tree|edge_painter|edge_route|flow|layout_plan|legible_text|level|painter|pair_grip|pen|port_name|scene|sequences|sliced|text_width)\.ts$/;
const appearance = /src\/ui\/(tokens|kinds|format|verdict_styles)\.ts$|src\/gen\/.*_pb\.ts$/;

export default defineConfig({
  base: "./",
  plugins: [bareImports],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    outDir: resolve(here, process.env.TBPS_STATIC_DIR ?? "../tb_plugin_structure/static"),
    emptyOutDir: true,
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: true,
    rolldownOptions: {
      input: {
        graph_diff: resolve(here, "src/entries/graph_diff.tsx"),
        shape_audit: resolve(here, "src/entries/shape_audit.tsx"),
        attention: resolve(here, "src/entries/attention.tsx"),
      },
      // Without this the bundler drops the `render` export that TensorBoard calls.
      preserveEntrySignatures: "strict",
      output: {
        entryFileNames: "[name].js",
        ...names,
        codeSplitting: {
          groups: [
            { name: "appearance", test: appearance, priority: 2 },
            { name: "graph", test: firstPicture },
          ],
        },
      },
    },
  },
  worker: {
    format: "es",
    plugins: () => [treeWalksOnly],
    rolldownOptions: { output: { entryFileNames: "[name]-[hash].js", ...names } },
  },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"] },
});
