import { describe, expect, it } from "vitest";
import { ChartScale } from "./line_chart";

const frame = { width: 120, height: 60, left: 10, right: 10, top: 5, bottom: 5 };
const points = (...ys: number[]) => ({ name: "s", points: ys.map((y, x) => ({ x, y })) });

describe("the scale of a line chart", () => {
  it("runs from the left edge to the right edge of the frame", () => {
    const scale = new ChartScale([points(0, 1, 2)], frame);
    expect([scale.x(0), scale.x(1), scale.x(2)]).toEqual([10, 60, 110]);
    expect(scale.y(2)).toBeLessThan(scale.y(0));
  });

  it("leaves a gap where a value is unknown", () => {
    const series = points(1, Number.NaN, 1, 1);
    expect(new ChartScale([series], frame).path(series)).toBe("M10.0 30.0M76.7 30.0L110.0 30.0");
  });

  it("knows that nothing is to be drawn", () => {
    expect(new ChartScale([points(Number.NaN)], frame).isEmpty).toBe(true);
  });
});
