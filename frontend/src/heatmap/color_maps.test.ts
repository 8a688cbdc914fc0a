import { describe, expect, it } from "vitest";
import { type ColorMap, channels, cssColor, SEQUENTIAL, SIGNED } from "./color_maps";

/** Relative luminance as WCAG 2 defines it. */
function luminance(map: ColorMap, index: number): number {
  const [r, g, b] = channels(map, index).map((byte) => {
    const value = byte / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

describe("the sequential map", () => {
  it("grows lighter with every entry", () => {
    for (let index = 1; index < 256; index++) {
      expect(luminance(SEQUENTIAL, index)).toBeGreaterThan(luminance(SEQUENTIAL, index - 1) - 1e-3);
    }
    expect(luminance(SEQUENTIAL, 0)).toBeLessThan(0.03);
    expect(luminance(SEQUENTIAL, 255)).toBeGreaterThan(0.7);
  });

  it("starts violet and ends yellow", () => {
    const [r0, g0, b0] = channels(SEQUENTIAL, 0);
    expect(b0).toBeGreaterThan(r0);
    expect(r0).toBeGreaterThan(g0);
    const [r1, g1, b1] = channels(SEQUENTIAL, 255);
    expect(Math.min(r1, g1)).toBeGreaterThan(b1 + 60);
  });
});

describe("the signed map", () => {
  it("is near white at zero, blue below and red above", () => {
    expect(Math.min(...channels(SIGNED, 127), ...channels(SIGNED, 128))).toBeGreaterThan(240);
    const [r0, , b0] = channels(SIGNED, 0);
    expect(b0).toBeGreaterThan(r0 + 80);
    const [r1, , b1] = channels(SIGNED, 255);
    expect(r1).toBeGreaterThan(b1 + 80);
  });

  it("gives equal distances equal weight", () => {
    for (const distance of [20, 60, 100, 127]) {
      const below = luminance(SIGNED, 127 - distance);
      const above = luminance(SIGNED, 128 + distance);
      expect(Math.abs(below - above)).toBeLessThan(0.06);
    }
  });
});

it("entries are opaque", () => {
  expect(cssColor(SEQUENTIAL, 0)).toMatch(/^rgb\(\d+, \d+, \d+\)$/);
  expect(new Uint8Array(SEQUENTIAL.buffer)[3]).toBe(255);
});
