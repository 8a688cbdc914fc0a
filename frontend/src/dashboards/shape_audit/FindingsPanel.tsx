import { useSignal } from "@preact/signals";
import type { Finding } from "../../gen/tb_plugin_structure/v1/audit_pb";
import { severityStyle } from "./verdicts";

/** What is worth knowing before the first training step, worst first. */
export function FindingsPanel({
  findings,
  current,
  onJump,
}: {
  findings: readonly Finding[];
  /** Position of the finding jumped to last, −1 for none. */
  current: number;
  onJump: (index: number) => void;
}) {
  const open = useSignal<ReadonlySet<number>>(new Set());
  const toggle = (index: number) => {
    const next = new Set(open.value);
    if (!next.delete(index)) next.add(index);
    open.value = next;
  };
  return (
    <ol class="findings">
      {findings.map((finding, index) => {
        const style = severityStyle(finding.severity);
        const isOpen = open.value.has(index) || current === index;
        return (
          <li
            key={`${finding.rule} ${finding.subject} ${finding.modulePath} ${index}`}
            class={current === index ? "current" : ""}
          >
            <button
              type="button"
              class="finding"
              aria-expanded={isOpen}
              onClick={() => {
                if (finding.row >= 0) onJump(index);
                else toggle(index);
              }}
            >
              <span class={`mark tone-${style.tone}`} aria-hidden="true">
                {style.glyph}
              </span>
              <span>
                <span class="visually-hidden">{style.word}: </span>
                <Subject of={finding.subject} />
                {finding.message}
              </span>
            </button>
            {isOpen ? (
              <div class="explanation">
                <p>{finding.explanation}</p>
                <p>
                  <strong>Fix:</strong> {finding.fix}
                </p>
                <p class="soft mono">{finding.rule}</p>
              </div>
            ) : (
              <button type="button" class="why" onClick={() => toggle(index)}>
                why, and what to do
              </button>
            )}
          </li>
        );
      })}
    </ol>
  );
}

/** Whose module it is; a finding about both needs no letter. */
function Subject({ of }: { of: string }) {
  if (of !== "teacher" && of !== "student") return null;
  return (
    <>
      <span class="letter" data-tip={`of the ${of}`} aria-hidden="true">
        {of === "teacher" ? "T" : "S"}
      </span>
      <span class="visually-hidden">{of}: </span>
    </>
  );
}
