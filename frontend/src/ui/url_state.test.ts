import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { HashValues } from "../host/hash";
import { LONGEST_VALUE, UrlState } from "./url_state";

class Bar {
  written: HashValues[] = [];
  private listener: (values: HashValues) => void = () => {};
  constructor(private readonly start: HashValues) {}
  read = () => this.start;
  write = (values: HashValues) => void this.written.push(values);
  onChange(listener: (values: HashValues) => void) {
    this.listener = listener;
    return () => {};
  }
  navigate = (values: HashValues) => this.listener(values);
}

describe("UrlState", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("starts from the address and writes what differs from the defaults, once per burst", () => {
    const bar = new Bar({ at: "layer1" });
    const state = new UrlState(bar);
    const at = state.text("at");
    const view = state.text("view", "both");
    expect(at.value).toBe("layer1");
    at.value = "layer2";
    view.value = "outline";
    at.value = "layer3";
    vi.runAllTimers();
    expect(bar.written).toEqual([{ at: "layer3", view: "outline" }]);
    view.value = "both";
    vi.runAllTimers();
    expect(bar.written.at(-1)).toEqual({ at: "layer3" });
  });

  it("follows back and forward", () => {
    const bar = new Bar({});
    const state = new UrlState(bar);
    const policy = state.text("policy", "copy");
    bar.navigate({ policy: "uniform" });
    expect(policy.value).toBe("uniform");
    bar.navigate({});
    expect(policy.value).toBe("copy");
  });

  it("keeps what is too long for the address to itself, also when the address changes", () => {
    const bar = new Bar({});
    const state = new UrlState(bar);
    const pins = state.text("pins");
    pins.value = "x".repeat(LONGEST_VALUE + 1);
    vi.runAllTimers();
    expect(bar.written.at(-1)).toEqual({});
    bar.navigate({ at: "layer1" });
    expect(pins.value.length).toBe(LONGEST_VALUE + 1);
    pins.value = "short";
    vi.runAllTimers();
    expect(bar.written.at(-1)).toEqual({ pins: "short" });
  });
});
