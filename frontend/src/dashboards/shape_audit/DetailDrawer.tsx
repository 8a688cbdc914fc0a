import { Button, CopyButton } from "../../ui/Button";
import { exactNumber, ratio, shapeText, shortNumber } from "../../ui/format";
import { kindStyle } from "../../ui/kinds";
import type { AuditRows, SideName } from "./audit_rows";
import { DimensionBars } from "./DimensionBars";
import { QUANTITIES } from "./quantities";
import { severityStyle, verdictStyle } from "./verdicts";

/** One pair in full: dimensions, adapter, cost, findings. */
export function DetailDrawer({
  rows,
  row,
  onClose,
  onGraph,
}: {
  rows: AuditRows;
  row: number;
  onClose: () => void;
  onGraph: () => void;
}) {
  const verdict = verdictStyle(rows.verdict(row));
  const cause = rows.text("cause", row);
  const kind = kindStyle(rows.number("kind", row));
  const matched = rows.text("matched", row);
  const isPaired = rows.hasSide("teacher", row) && rows.hasSide("student", row);
  return (
    <aside class="drawer" aria-label="Details of the selected row">
      <header>
        <span class={`kind tone-${verdict.tone}`} aria-hidden="true">
          {verdict.glyph}
        </span>
        <h2>{verdict.word}</h2>
        <span class="spring" />
        <Button label="Show this place in Graph diff (1)" onClick={onGraph}>
          Graph
        </Button>
        <Button label="Close (Esc)" onClick={onClose}>
          ✕
        </Button>
      </header>
      <dl class="places">
        <Place rows={rows} row={row} side="teacher" />
        <Place rows={rows} row={row} side="student" />
      </dl>
      {cause !== "" && <p class="cause">{cause}</p>}
      <section>
        <h3>Dimensions</h3>
        <DimensionBars teacher={rows.dimensions("teacher", row)} student={rows.dimensions("student", row)} />
      </section>
      <Adapter rows={rows} row={row} />
      <Costs rows={rows} row={row} />
      {kind.name !== "" && (
        <p class="soft">
          {isPaired ? "Paired as" : "Found"} {kind.glyph} {kind.name}, confidence{" "}
          {rows.number("confidence", row).toFixed(2)}
          {matched === "" ? "." : `: ${matched}.`}
        </p>
      )}
      {rows.findings(row).map((finding) => {
        const style = severityStyle(finding.severity);
        return (
          <section key={`${finding.rule} ${finding.message}`} class={`note tone-${style.tone}`}>
            <p>
              <span class={`mark tone-${style.tone}`}>{style.glyph}</span> {finding.message}
            </p>
            <p>{finding.explanation}</p>
            <p>
              <strong>Fix:</strong> {finding.fix}
            </p>
          </section>
        );
      })}
    </aside>
  );
}

function Place({ rows, row, side }: { rows: AuditRows; row: number; side: SideName }) {
  const exists = rows.hasSide(side, row);
  const element = rows.text(`${side}_element`, row);
  const facts = [
    shapeText(rows.shape(side, row)),
    rows.text(`${side}_dtype`, row),
    rows.text(`${side}_device`, row),
    rows.text(`${side}_layout`, row),
    element === "" ? "" : `output ${element}`,
  ];
  const call = rows.text(`${side}_call`, row);
  const flags = rows.texts(`${side}_flags`, row);
  return (
    <div>
      <dt class="letter">{side === "teacher" ? "T" : "S"}</dt>
      <dd>
        {exists ? (
          <>
            <span class="mono">{rows.path(side, row) || "(model)"}</span>{" "}
            <span class="soft">
              {rows.text(`${side}_class`, row)}
              {call && `, call ${call}`}
            </span>
            <br />
            <span class="soft mono">{facts.filter(Boolean).join("  ")}</span>
            {flags.length > 0 && (
              <>
                <br />
                <span class="soft">{flags.join(" · ")}</span>
              </>
            )}
          </>
        ) : (
          <span class="soft">no counterpart</span>
        )}
      </dd>
    </div>
  );
}

function Adapter({ rows, row }: { rows: AuditRows; row: number }) {
  const chain = rows.text("adapter", row);
  const code = rows.text("adapter_code", row);
  if (!rows.hasSide("teacher", row) || !rows.hasSide("student", row)) return null;
  if (chain === "") {
    if (verdictStyle(rows.verdict(row)).id !== "match") return null;
    return (
      <section>
        <h3>Adapter</h3>
        <p class="soft">None needed: compare the outputs as they are.</p>
      </section>
    );
  }
  return (
    <section>
      <h3>
        Adapter{" "}
        <span class="soft">
          student → teacher, {shortNumber(rows.number("adapter_parameters", row))} parameters
        </span>
      </h3>
      <p class="mono chain">{chain}</p>
      {code !== "" && (
        <div class="code">
          <pre>
            <code>{code}</code>
          </pre>
          <CopyButton text={code} label="Copy the adapter's code" />
        </div>
      )}
    </section>
  );
}

function Costs({ rows, row }: { rows: AuditRows; row: number }) {
  const cell = (side: SideName, id: string, format: (value: number) => string) => {
    if (!rows.hasSide(side, row)) return <td>—</td>;
    const value = rows.number(`${side}_${id}`, row);
    return <td data-tip={exactNumber(value)}>{format(value)}</td>;
  };
  const recorded = QUANTITIES.filter(({ id, optional }) => !optional || rows.isRecorded(id));
  const missing = QUANTITIES.filter((quantity) => !recorded.includes(quantity));
  return (
    <section>
      <h3>Cost</h3>
      <table class="costs">
        <thead>
          <tr>
            <td />
            <th scope="col">T</th>
            <th scope="col">S</th>
            <th scope="col">S ÷ T</th>
          </tr>
        </thead>
        <tbody>
          {recorded.map(({ id, label, format }) => (
            <tr key={id}>
              <th scope="row">{label}</th>
              {cell("teacher", id, format)}
              {cell("student", id, format)}
              <td>{ratio(rows.number(`student_${id}`, row), rows.number(`teacher_${id}`, row)) || "—"}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {missing.length > 0 && (
        <p class="soft">Not recorded: {missing.map(({ label }) => label).join(", ")}.</p>
      )}
    </section>
  );
}
