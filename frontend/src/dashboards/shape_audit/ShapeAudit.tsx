import { STRUCTURE_EXAMPLE } from "../../ui/examples";
import { Frame } from "../../ui/Frame";
import type { Session } from "../../ui/session";

const EMPTY = {
  title: "No model recorded yet",
  text: "Record a teacher and a student with one forward pass each, and this tab says where their features meet and which adapter is needed where they do not:",
  code: STRUCTURE_EXAMPLE,
};

export function ShapeAudit({ session }: { session: Session }) {
  return (
    <Frame session={session} sentence={null} hasPolicy keys={[]} empty={EMPTY}>
      {() => null}
    </Frame>
  );
}
