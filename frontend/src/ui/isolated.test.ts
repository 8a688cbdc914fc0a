import { expect, it } from "vitest";
import { isolated } from "./isolated";

it("closes direction marks within a name and leaves other names alone", () => {
  expect(isolated("evil\u202e")).toBe("\u2068evil\u202e\u2069");
  expect(isolated("مرحبا")).toBe("مرحبا");
});
