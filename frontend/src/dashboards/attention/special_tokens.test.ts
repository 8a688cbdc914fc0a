import { expect, it } from "vitest";
import { shortened } from "./special_tokens";

it("keeps both ends of a token that is a whole document, and says how long it is", () => {
  expect(shortened(`start${"a".repeat(99_990)}end!!`, 12)).toBe("startaaa…d!! (100,000 characters)");
});

it("leaves short labels, and emoji of several code units, alone", () => {
  expect(shortened("🦊🦊🦊", 3)).toBe("🦊🦊🦊");
});
