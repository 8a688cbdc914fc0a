import { GraphDiff } from "../dashboards/graph_diff/GraphDiff";
import { mount } from "../ui/mount";
import { Session } from "../ui/session";

/** Called by TensorBoard when the tab is opened. */
export function render(): void {
  mount(<GraphDiff session={new Session("graph_diff")} />);
}
