/**
 * Vite wraps each dynamic import in a helper that loads the styles and chunks that the new chunk needs. Our styles are
 * text within scripts and there is nothing to load ahead, so what is left of the helper is the import.
 */
export const bareImports = {
  name: "bare-imports",
  enforce: "pre" as const,
  load: (id: string) =>
    id === "\0vite/preload-helper.js" ? "export const __vitePreload = (load) => load();" : null,
};

/**
 * dagre comes as one file that exports every algorithm of its graph library as properties of an object, which no bundler
 * can drop. Layout walks trees in two orders; the list of the others, shortest paths and so on, is shortened to these.
 */
export const treeWalksOnly = {
  name: "tree-walks-only",
  transform(code: string, id: string): string | null {
    if (!id.includes("@dagrejs/dagre")) return null;
    return code.replace(/\w+\(\w+,\{([^{}]*\btarjan:[^{}]*)\}\)/, (whole: string, list: string) => {
      const kept = list.split(",").filter((entry) => /^(pre|post)order:/.test(entry));
      return kept.length === 2 ? whole.replace(list, kept.join(",")) : whole;
    });
  },
};
