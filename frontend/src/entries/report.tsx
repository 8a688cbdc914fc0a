import { GraphDiff } from "../dashboards/graph_diff/GraphDiff";
import { readReport } from "../dashboards/graph_diff/report_file";
import { mount } from "../ui/mount";
import { Session } from "../ui/session";
import { embedAnswers } from "../wire/embedded";

/** Opens the page's own record: the script of a report that needs no server. */
async function open(): Promise<void> {
  const report = await readReport(document);
  embedAnswers(report.answers);
  if (!location.hash) location.hash = report.state;
  mount(<GraphDiff session={new Session("graph_diff")} />);
}

void open();
