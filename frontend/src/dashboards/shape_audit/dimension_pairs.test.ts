import { describe, expect, it } from "vitest";
import { pairDimensions } from "./dimension_pairs";

describe("pairing dimensions", () => {
  it("pairs a map with tokens by meaning, and leaves the rest alone", () => {
    const map = [
      { name: "batch", size: 2 },
      { name: "channels", size: 512 },
      { name: "height", size: 7 },
    ];
    const tokens = [
      { name: "batch", size: 2 },
      { name: "tokens", size: 197 },
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
      { name: "?", size: 3 },
      { name: "tokens", size: 4 },
      { name: "tokens", size: 5 },
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
      [{ name: "?", size: 1 }],
      [
        { name: "?", size: 1 },
        { name: "?", size: 2 },
      ],
    );
    expect(new Set(keys.map(({ key }) => key)).size).toBe(2);
  });
});
