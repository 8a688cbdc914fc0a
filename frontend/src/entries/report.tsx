import { GraphDiff } from "../dashboards/graph_diff/GraphDiff";
import { openReport } from "../dashboards/graph_diff/report_file";
import { mount } from "../ui/mount";
import { Session } from "../ui/session";

/** Opens the record that the page holds: the script of a report that needs no server. */
async function open(): Promise<void> {
  const state = await openReport(document);
  if (!location.hash) location.hash = state;
  mount(<GraphDiff session={new Session("graph_diff")} />);
}

void open();
