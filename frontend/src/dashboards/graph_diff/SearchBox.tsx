import { useRef } from "preact/hooks";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { useKeys } from "../../ui/keys";
import type { DiffState } from "./diff_state";

const HELP = `words: path, class or operator
class:Linear  op:softmax  path:encoder
kind:resized  shape:[*,256,28,*]  dtype:float16
stride=2: an attribute   /layer[12]/: a pattern`;

/** Search with its count and the way from result to result. */
export function SearchBox({ state }: { state: DiffState }) {
  const input = useRef<HTMLInputElement>(null);
  useKeys({
    "/": () => input.current?.focus(),
    n: () => state.step(1),
    N: () => state.step(-1),
  });
  const { nodes, error } = state.matches.value;
  const isEmpty = !state.query.value.trim();
  const position = nodes.indexOf(state.selected.value);
  return (
    <div class="search" role="search">
      <input
        ref={input}
        type="search"
        placeholder="Search  (/)"
        aria-label="Search nodes"
        aria-invalid={error !== ""}
        data-tip={error || HELP}
        value={state.query.value}
        onInput={(event) => {
          state.query.value = event.currentTarget.value;
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") state.step(event.shiftKey ? -1 : 1);
          if (event.key === "Escape") {
            state.query.value = "";
            event.currentTarget.blur();
          }
        }}
      />
      {!isEmpty && (
        <output>
          {error
            ? "?"
            : nodes.length
              ? `${position < 0 ? "" : `${position + 1} of `}${nodes.length}`
              : "none"}
        </output>
      )}
      {nodes.length > 0 && (
        <>
          <Button label="Previous result (N)" onClick={() => state.step(-1)}>
            <Icon name="up" />
          </Button>
          <Button label="Next result (n)" onClick={() => state.step(1)}>
            <Icon name="down" />
          </Button>
        </>
      )}
    </div>
  );
}
