import { batch, effect, type Signal, signal } from "@preact/signals";
import type { HashValues } from "../host/hash";

/** The part of LocationState that is used here; a test gives its own. */
export interface AddressBar {
  read(): HashValues;
  write(values: HashValues): void;
  onChange(listener: (values: HashValues) => void): () => void;
}

/** Browsers refuse more than some hundred address changes in half a minute (a slider makes them quickly). */
const WRITE_DELAY_MS = 120;

/** Longer values stay out of the address: browsers and servers cut addresses, and nobody reads them. */
export const LONGEST_VALUE = 3000;

/**
 * Signals that live in the address bar. A value equal to its default is left out of the address, and so is one that
 * is too long for it: that lives as long as the page.
 */
export class UrlState {
  private readonly initial: HashValues;
  private readonly entries = new Map<string, { signal: Signal<string>; fallback: string }>();
  private stopWriting = () => {};
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly bar: AddressBar) {
    this.initial = bar.read();
    bar.onChange((values) => {
      batch(() => {
        for (const [key, entry] of this.entries) {
          const isKept = values[key] === undefined && entry.signal.peek().length > LONGEST_VALUE;
          if (!isKept) entry.signal.value = values[key] ?? entry.fallback;
        }
      });
    });
  }

  /** The value of `key`, read now and written whenever it changes. */
  text(key: string, fallback = ""): Signal<string> {
    const value = signal(this.initial[key] ?? fallback);
    this.entries.set(key, { signal: value, fallback });
    this.stopWriting();
    this.stopWriting = effect(() => {
      const values = this.shortValues();
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.bar.write(values), WRITE_DELAY_MS);
    });
    return value;
  }

  private shortValues(): HashValues {
    return Object.fromEntries(
      Object.entries(this.values()).filter(([, value]) => value.length <= LONGEST_VALUE),
    );
  }

  /** All values that differ from their defaults, to carry to another tab. */
  values(): HashValues {
    const values: HashValues = {};
    for (const [key, entry] of this.entries) {
      if (entry.signal.value !== entry.fallback) values[key] = entry.signal.value;
    }
    return values;
  }
}
