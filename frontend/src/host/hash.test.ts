import { describe, expect, it } from "vitest";
import { readHash, writeHash } from "./hash";

const TAB = "structure_graph_diff";

describe("hash state", () => {
  it("reads only the tab's own values", () => {
    const hash = `#${TAB}&p.${TAB}.node=layer1.0&p.other.node=x&_smoothing=0.6`;
    expect(readHash(hash, TAB)).toEqual({ node: "layer1.0" });
  });

  it("keeps TensorBoard's and other plugins' values", () => {
    const before = `#scalars&p.other.node=x&p.${TAB}.node=old&_smoothing=0.6`;
    expect(writeHash(before, TAB, { node: "new", empty: "" })).toBe(
      `#${TAB}&p.${TAB}.node=new&p.other.node=x&_smoothing=0.6`,
    );
  });

  it("survives every character, and never writes a second '='", () => {
    const value = 'a=b&c%d#e f/g:{"encoder.layer":[0,2]}é🙂';
    const hash = writeHash("", TAB, { pins: value });
    expect(hash.slice(1).split("&")[1]?.split("=")).toHaveLength(2);
    expect(hash).not.toContain(" ");
    expect(readHash(hash, TAB)).toEqual({ pins: value });
  });

  it("does not fail on a malformed escape", () => {
    expect(readHash(`#${TAB}&p.${TAB}.node=50%`, TAB)).toEqual({ node: "50%" });
  });
});
