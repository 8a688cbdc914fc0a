import { describe, expect, it } from "vitest";
import { pairDimensions } from "./dimension_pairs";

describe("pairing dimensions", () => {
  it("pairs a map with tokens by meaning, and leaves the rest alone", () => {
    const map = [
      { name: "batch", size: 2, text: "" },
      { name: "channels", size: 512, text: "" },
      { name: "height", size: 7, text: "" },
    ];
    const tokens = [
      { name: "batch", size: 2, text: "" },
      { name: "tokens", size: 197, text: "" },
    ];
    expect(pairDimensions(map, tokens).map(({ name, teacher, student }) => [name, teacher, student])).toEqual(
      [
        ["batch", 2, 2],
        ["channels", 512, null],
        ["height", 7, null],
        ["tokens", null, 197],
      ],
    );
  });

  it("pairs unknown dimensions by position and repeated names in order", () => {
    const square = [
      { name: "?", size: 3, text: "" },
      { name: "tokens", size: 4, text: "" },
      { name: "tokens", size: 5, text: "" },
    ];
    expect(
      pairDimensions(square, square).map(({ name, teacher, student }) => [name, teacher, student]),
    ).toEqual([
      ["dimension 0", 3, 3],
      ["tokens", 4, 4],
      ["tokens", 5, 5],
    ]);
  });

  it("gives every pair a key of its own", () => {
    const keys = pairDimensions(
      [{ name: "?", size: 1, text: "" }],
      [
        { name: "?", size: 1, text: "" },
        { name: "?", size: 2, text: "" },
      ],
    );
    expect(new Set(keys.map(({ key }) => key)).size).toBe(2);
  });
});
