import { resolve } from "node:path";
import { defineConfig } from "vitest/config";

const here = import.meta.dirname;

// TensorBoard serves one flat folder below each tab's address, so everything is relative and lies side by
// side. Hashes are hexadecimal: base64 hashes may end in "-", which the backend's cache rule would not see.
const names = {
  chunkFileNames: "[name]-[hash].js",
  assetFileNames: "[name]-[hash][extname]",
  hashCharacters: "hex" as const,
};

export default defineConfig({
  base: "./",
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
      output: { entryFileNames: "[name].js", ...names },
    },
  },
  worker: {
    format: "es",
    rolldownOptions: { output: { entryFileNames: "[name]-[hash].js", ...names } },
  },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"] },
});
