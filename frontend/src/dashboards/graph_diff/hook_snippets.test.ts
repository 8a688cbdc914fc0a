import { describe, expect, it } from "vitest";
import { hookSnippets } from "./hook_snippets";

const of = (library: string, teacher: string, student: string) =>
  hookSnippets(teacher, student).find((snippet) => snippet.library === library)?.text;

describe("a pair as configuration", () => {
  it("of TextBrewer, whose hidden states begin with the embeddings", () => {
    expect(of("TextBrewer", "encoder.layer.7", "transformer.layer.3")).toBe(
      '{"layer_T": 8, "layer_S": 4, "feature": "hidden", "loss": "hidden_mse", "weight": 1}',
    );
    expect(of("TextBrewer", "encoder.layer.7.attention", "transformer.layer.3.attention")).toBeUndefined();
  });

  it("of mmrazor and of align", () => {
    expect(of("mmrazor", "layer4", "layer3")).toContain('source="layer4"');
    expect(of("pins for align()", "layer4", "layer3")).toBe('pins={"layer3": "layer4"}');
  });
});
