import { useComputed, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { cardText } from "../../graph/card";
import { numericValue, type ValueColumn } from "../../graph/colouring";
import { type DiffTree, NodeType, type SideName } from "../../graph/diff_tree";
import { exactNumber, ratio, shapeText, shortNumber } from "../../ui/format";
import { KindBadge } from "../../ui/Kind";
import { ROW_HEIGHT } from "../../ui/tokens";
import type { DiffState } from "./diff_state";
import type { GraphCommands } from "./GraphPane";
import { type OutlineRows, outlineRows, rowOf } from "./outline_rows";

const OVERSCAN = 8;
/** Rows are drawn anew when so many have gone by, and not with every pixel. */
const BLOCK = 4;

/** The aligned module tree, teacher beside student; it alone is enough to work by keyboard. */
export function Outline({ state, commands }: { state: DiffState; commands: GraphCommands }) {
  const body = useRef<HTMLDivElement>(null);
  /** How many blocks of rows are above the window. */
  const above = useSignal(0);
  const drawn = useRef(new Map<number, VNode<RowProps>>());
  const height = useSignal(600);
  const rows = useComputed(() => {
    const { value } = state.comparison;
    return value ? outlineRows(value.tree, state.open.value, state.filter.value, value.counts) : [];
  });
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      if (entry && entry.contentRect.height > 0) height.value = entry.contentRect.height;
    });
    observer.observe(body.current!);
    commands.outline = body.current;
    return () => {
      observer.disconnect();
      commands.outline = null;
    };
  }, [height, commands]);
  const selected = state.selected.value;
  const list = rows.value;
  commands.rows = list;
  const position = rowOf(list, selected);
  useEffect(() => {
    const element = body.current;
    if (!element || position < 0) return;
    const top = position * ROW_HEIGHT;
    const put = (to: number) => {
      if (commands.link) commands.link.putOutline(to);
      else element.scrollTop = to;
    };
    if (top < element.scrollTop) put(top - ROW_HEIGHT);
    else if (top + ROW_HEIGHT > element.scrollTop + element.clientHeight) {
      put(top - element.clientHeight + 2 * ROW_HEIGHT);
    }
  }, [position, commands]);

  const comparison = state.comparison.value;
  if (!comparison) return null;
  const { tree } = comparison;
  const first = Math.max(0, above.value * BLOCK - OVERSCAN);
  const last = Math.min(
    list.length,
    (above.value + 1) * BLOCK + Math.ceil(height.value / ROW_HEIGHT) + OVERSCAN,
  );
  const wide = state.view.value === "outline";
  const isPair = tree.sides.student !== null;
  const column = state.painting.value?.column;
  // A row that is given back as it was is not looked at again; what it shows it watches itself.
  const before = drawn.current;
  drawn.current = new Map();
  const shown = list.slice(first, last).map((node, index) => {
    const props: RowProps = { state, tree, node, position: first + index, wide };
    const known = before.get(node);
    const was = known?.props;
    const isSame = was?.tree === tree && was.position === props.position && was.wide === wide;
    const element = known && isSame ? known : <Row key={node} {...props} />;
    drawn.current.set(node, element);
    return element;
  });
  return (
    <div class={`outline ${wide ? "wide" : ""} ${isPair ? "" : "single"} ${column ? "measured" : ""}`}>
      <div class="outline-head" aria-hidden="true">
        <span />
        <span>
          {isPair ? "T" : ""} {tree.sides.teacher.label}
        </span>
        {isPair && <span>S {tree.sides.student!.label}</span>}
        {wide && <span>output{isPair ? " T" : ""}</span>}
        {wide && isPair && <span>output S</span>}
        {column && (
          <span class="values" data-tip={column.title}>
            {column.label}
            {isPair ? " T | S" : ""}
          </span>
        )}
        <span class="number" data-tip={isPair ? "parameters, student ÷ teacher" : "parameters"}>
          params
        </span>
      </div>
      <div
        ref={body}
        class="outline-body"
        role="treegrid"
        aria-label="Outline: teacher and student side by side"
        aria-rowcount={list.length}
        aria-activedescendant={position >= 0 ? `row-${selected}` : undefined}
        tabIndex={0}
        onScroll={(event) => {
          above.value = Math.floor(event.currentTarget.scrollTop / ROW_HEIGHT / BLOCK);
          commands.moved("outline");
        }}
        onKeyDown={(event) => {
          if (outlineKey(event, state, list, position, tree)) {
            event.preventDefault();
            event.stopPropagation();
          }
        }}
      >
        <div role="presentation" style={{ height: `${list.length * ROW_HEIGHT}px` }}>
          {/* Rows follow one another and only this moves: a position of its own for each row would fill the browser's
              cache of computed styles while one scrolls, and drawing would take longer and longer. */}
          <div role="presentation" style={{ transform: `translateY(${first * ROW_HEIGHT}px)` }}>
            {shown}
          </div>
        </div>
      </div>
    </div>
  );
}

interface RowProps {
  state: DiffState;
  tree: DiffTree;
  node: number;
  position: number;
  wide: boolean;
}

function Row({ state, tree, node, position, wide }: RowProps) {
  const depth = [...tree.ancestors(node)].length;
  const column = state.painting.value?.column;
  const isPair = tree.sides.student !== null;
  // The model itself stays open: there is nothing beside it.
  const expandable = node > 0 && tree.isExpandable(node);
  // Computed, so that of all rows only those are drawn anew that what has happened is about.
  const isOpen = useComputed(() => state.open.value.has(node)).value;
  const isSelected = useComputed(() => state.selected.value === node).value;
  const classes = useComputed(() => rowClasses(state, node)).value;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the treegrid around it has the keys
    <div
      id={`row-${node}`}
      role="row"
      class={classes}
      aria-level={depth + 1}
      aria-rowindex={position + 1}
      aria-expanded={expandable ? isOpen : undefined}
      aria-selected={isSelected}
      onClick={(event) =>
        event.ctrlKey || event.metaKey || event.shiftKey ? state.mark(node) : state.select(node, false)
      }
      onDblClick={() => state.toggle(node)}
      onPointerEnter={() => {
        state.hovered.value = node;
      }}
      onPointerLeave={() => {
        state.hovered.value = -1;
      }}
    >
      <span role="gridcell">
        <KindBadge kind={tree.kindOf(node)} confidence={tree.confidence[node]!} />
      </span>
      <NameCell state={state} tree={tree} node={node} side="teacher" depth={depth} isOpen={isOpen} />
      {isPair && <NameCell state={state} tree={tree} node={node} side="student" depth={depth} />}
      {wide && <ShapeCell tree={tree} node={node} side="teacher" />}
      {wide && isPair && <ShapeCell tree={tree} node={node} side="student" />}
      {column && <ValueCell column={column} tree={tree} node={node} />}
      <ParameterCell tree={tree} node={node} />
    </div>
  );
}

function rowClasses(
  { comparison, selected, marked, hovered, matches, faint }: DiffState,
  node: number,
): string {
  const tree = comparison.value?.tree;
  const classes = [
    "outline-row",
    selected.value === node ? "selected" : "",
    marked.value === node ? "marked" : "",
    hovered.value === node ? "hovered" : "",
    matches.value.set.has(node) ? "match" : "",
    tree?.type[node] === NodeType.OPERATOR ? "operator" : "",
    faint.value?.[node] ? "faint" : "",
  ];
  return classes.join(" ");
}

function NameCell(props: {
  state: DiffState;
  tree: DiffTree;
  node: number;
  side: SideName;
  depth: number;
  /** Given for the first cell of a row, which has the sign for it. */
  isOpen?: boolean;
}) {
  const { state, tree, node, side, depth, isOpen } = props;
  const { title, subtitle } = cardText(tree, node, side);
  const has = tree.hasSide(node, side);
  return (
    <span
      role="gridcell"
      class="name"
      style={{ paddingLeft: `${depth * 12}px` }}
      data-tip={has ? "" : undefined}
      onPointerOver={({ currentTarget }) => {
        // Made when it is wanted: rows are drawn on every scroll.
        if (!has) return;
        void import("./hints").then(({ nodeHint }) => {
          currentTarget.dataset.tip = nodeHint(tree, node);
        });
      }}
    >
      {isOpen !== undefined && (
        <button
          type="button"
          class="twisty"
          tabIndex={-1}
          aria-hidden="true"
          style={{ visibility: node > 0 && tree.isExpandable(node) ? "visible" : "hidden" }}
          onClick={(event) => {
            event.stopPropagation();
            state.toggle(node, side);
          }}
        >
          {isOpen ? "▾" : "▸"}
        </button>
      )}
      {has ? (
        <>
          {tree.isEcho(node, side) ? <i>as above: {title}</i> : <b>{title}</b>}
          {subtitle && <i>{subtitle}</i>}
        </>
      ) : (
        <span class="gap" role="img" aria-label={`not in the ${side}`}>
          ·
        </span>
      )}
    </span>
  );
}

function ShapeCell({ tree, node, side }: { tree: DiffTree; node: number; side: SideName }) {
  const model = tree.side(side)!;
  const row = tree[side][node]!;
  const output =
    row < 0 || tree.type[node] === NodeType.FOLD
      ? -1
      : model.mainOutput(row, tree.type[node] === NodeType.OPERATOR);
  return (
    <span role="gridcell" class="mono shape">
      {output < 0 ? "" : shapeText(model.shape(output))}
    </span>
  );
}

/** What the colours stand for, as numbers beside swatches of their colours. */
function ValueCell({ column, tree, node }: { column: ValueColumn; tree: DiffTree; node: number }) {
  const sides: SideName[] = tree.sides.student ? ["teacher", "student"] : ["teacher"];
  return (
    <span role="gridcell" class="values">
      {sides.map((side) => {
        const colour = column.colour(node, side);
        return (
          <span key={side}>
            {colour && <i style={{ background: colour }} />}
            {column.text(node, side)}
          </span>
        );
      })}
    </span>
  );
}

function ParameterCell({ tree, node }: { tree: DiffTree; node: number }) {
  if (tree.type[node] === NodeType.OPERATOR) return <span role="gridcell" class="number" />;
  const [t, s] = [
    numericValue(tree, node, "teacher", "parameters"),
    numericValue(tree, node, "student", "parameters"),
  ];
  const both = t > 0 && s > 0;
  const text = both ? ratio(s, t) : shortNumber(Number.isNaN(t) || !t ? s || t || 0 : t);
  const tip = [
    Number.isNaN(t) ? "" : `T  ${exactNumber(t)} parameters`,
    Number.isNaN(s) ? "" : `S  ${exactNumber(s)} parameters`,
  ].filter(Boolean);
  return (
    <span role="gridcell" class={`number ${both && s === t ? "soft" : ""}`} data-tip={tip.join("\n")}>
      {text === "0" ? "" : text}
    </span>
  );
}

/** Keys of a treegrid; true when the key meant something. */
export function outlineKey(
  event: KeyboardEvent,
  state: DiffState,
  rows: OutlineRows,
  position: number,
  tree: DiffTree,
): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return false;
  const go = (to: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, to))];
    if (row !== undefined) state.select(row, false);
    return true;
  };
  const node = rows[position] ?? -1;
  switch (event.key) {
    case "ArrowDown":
      return go(position + 1);
    case "ArrowUp":
      return go(position < 0 ? 0 : position - 1);
    case "PageDown":
      return go(position + 15);
    case "PageUp":
      return go(position - 15);
    case "Home":
      return go(0);
    case "End":
      return go(rows.length - 1);
    case "ArrowRight":
      if (node < 0) return go(0);
      if (tree.isExpandable(node) && !state.open.value.has(node)) state.toggle(node);
      else if (state.open.value.has(node)) go(position + 1);
      return true;
    case "ArrowLeft":
      if (node < 0) return true;
      if (state.open.value.has(node) && node > 0) state.toggle(node);
      else if (tree.parent[node]! >= 0) state.select(tree.parent[node]!, false);
      return true;
    case "Enter":
      if (node >= 0) state.toggle(node);
      return true;
    case " ":
      if (node >= 0) state.mark(node);
      return true;
    default:
      return false;
  }
}
