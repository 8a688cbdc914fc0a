import { Severity } from "../../gen/tb_plugin_structure/v1/audit_pb";
import type { ToneName } from "../../ui/tokens";

export { VERDICTS, type VerdictStyle, verdictStyle } from "../../ui/verdict_styles";

export interface SeverityStyle {
  readonly word: string;
  readonly glyph: string;
  readonly tone: ToneName;
}

export function severityStyle(severity: Severity): SeverityStyle {
  switch (severity) {
    case Severity.ERROR:
      return { word: "error", glyph: "✕", tone: "vermillion" };
    case Severity.WARNING:
      return { word: "warning", glyph: "!", tone: "amber" };
    default:
      return { word: "note", glyph: "i", tone: "grey" };
  }
}
