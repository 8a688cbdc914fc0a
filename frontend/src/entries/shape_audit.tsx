import { ShapeAudit } from "../dashboards/shape_audit/ShapeAudit";
import { mount } from "../ui/mount";
import { Session } from "../ui/session";

/** Called by TensorBoard when the tab is opened. */
export function render(): void {
  mount(<ShapeAudit session={new Session("shape_audit")} />);
}
