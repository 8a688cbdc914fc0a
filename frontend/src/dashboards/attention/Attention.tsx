import { ATTENTION_EXAMPLE } from "../../ui/examples";
import { Frame } from "../../ui/Frame";
import type { Session } from "../../ui/session";

const EMPTY = {
  title: "No attention recorded yet",
  text: "Record what the heads of a teacher and a student look at, and this tab compares them:",
  code: ATTENTION_EXAMPLE,
};

export function Attention({ session }: { session: Session }) {
  return (
    <Frame session={session} sentence={null} keys={[]} empty={EMPTY}>
      {() => null}
    </Frame>
  );
}
