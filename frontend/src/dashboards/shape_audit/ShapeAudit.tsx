import { useMemo } from "preact/hooks";
import tableStyles from "../../table/table.css?inline";
import { STRUCTURE_EXAMPLE } from "../../ui/examples";
import type { Session } from "../../ui/session";
import { adoptStyles } from "../../ui/styles";
import { AuditState } from "./audit_state";
import { OperatorState } from "./operator_state";
import { PairAudit } from "./PairAudit";
import { SingleModel } from "./SingleModel";
import styles from "./shape_audit.css?inline";

export const EMPTY = {
  title: "No model recorded yet",
  text: "Record a teacher and a student with one forward pass each, and this tab says where their features meet and which adapter is needed where they do not:",
  code: STRUCTURE_EXAMPLE,
};

/** Two models: do their features meet? One model: what are the shapes in it? */
export function ShapeAudit({ session }: { session: Session }) {
  const { audit, operators } = useMemo(() => {
    adoptStyles(tableStyles);
    adoptStyles(styles);
    return { audit: new AuditState(session), operators: new OperatorState(session) };
  }, [session]);
  const isSingle = session.teacher.value !== null && session.student.value === null;
  return isSingle ? (
    <SingleModel session={session} state={operators} empty={EMPTY} />
  ) : (
    <PairAudit session={session} state={audit} empty={EMPTY} />
  );
}
