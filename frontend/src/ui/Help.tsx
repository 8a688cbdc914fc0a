import { useEffect, useRef } from "preact/hooks";
import { Button } from "./Button";
import { KINDS } from "./kinds";

export type KeyHelp = readonly (readonly [keys: string, meaning: string])[];

/** Keys that mean the same in every tab. */
export const COMMON_KEYS: KeyHelp = [
  ["/", "search"],
  ["n  N", "next, previous result"],
  ["[  ]", "previous, next step"],
  ["1  2  3", "Graph diff, Shape audit, Attention: the same place"],
  ["?", "this list"],
  ["Esc", "back"],
];

/** The keys of a tab and the legend of kinds. */
export function Help({ keys, onClose }: { keys: KeyHelp; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="help" aria-label="Keys and legend" onClose={onClose}>
      <div class="columns">
        <section>
          <h2>Keys</h2>
          <dl>
            {[...keys, ...COMMON_KEYS].map(([key, meaning]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{meaning}</dd>
              </div>
            ))}
          </dl>
        </section>
        <section>
          <h2>Kinds</h2>
          <dl>
            {KINDS.map((kind) => (
              <div key={kind.id}>
                <dt>
                  <span class={`kind tone-${kind.tone}`}>{kind.glyph}</span>
                </dt>
                <dd>
                  {kind.name}: {kind.meaning}
                </dd>
              </div>
            ))}
          </dl>
          <p class="soft">
            Ratios are student ÷ teacher. A dashed badge means low confidence, ⚠ that the call of a module
            raised an error.
          </p>
        </section>
      </div>
      <Button label="Close" onClick={() => dialog.current?.close()}>
        Close
      </Button>
    </dialog>
  );
}
