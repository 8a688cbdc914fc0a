import { exactNumber, shortNumber } from "./format";
import type { ToneName } from "./tokens";

/** One filter of the summary row. */
export interface Chip {
  id: string;
  glyph: string;
  label: string;
  count: number;
  tone: ToneName;
  tip: string;
  pressed: boolean;
}

/** Counts that are filters; several may be pressed. */
export function Chips({ chips, onToggle }: { chips: Chip[]; onToggle: (id: string) => void }) {
  return (
    <div class="chips" role="group" aria-label="Filter">
      {chips.map((chip) => (
        <button
          key={chip.id}
          type="button"
          class={`chip tone-${chip.tone}`}
          aria-pressed={chip.pressed}
          data-tip={`${chip.label}: ${exactNumber(chip.count)} — ${chip.tip}`}
          onClick={() => onToggle(chip.id)}
        >
          <span class="glyph" aria-hidden="true">
            {chip.glyph}
          </span>
          {shortNumber(chip.count)}
          <span class="word">{chip.label}</span>
        </button>
      ))}
    </div>
  );
}
