import { Attention } from "../dashboards/attention/Attention";
import { mount } from "../ui/mount";
import { Session } from "../ui/session";

/** Called by TensorBoard when the tab is opened. */
export function render(): void {
  mount(<Attention session={new Session("attention")} />);
}
