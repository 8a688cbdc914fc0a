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

/**
 * Vite wraps each dynamic import in a helper that loads the styles and chunks that the new chunk needs. Our styles are
 * text within scripts and there is nothing to load ahead, so what is left of the helper is the import.
 */
const bareImports = {
  name: "bare-imports",
  enforce: "pre" as const,
  load: (id: string) =>
    id === "\0vite/preload-helper.js" ? "export const __vitePreload = (load) => load();" : null,
};

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
      output: { entryFileNames: "[name].js", ...names },
    },
  },
  worker: {
    format: "es",
    rolldownOptions: { output: { entryFileNames: "[name]-[hash].js", ...names } },
  },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"] },
});
