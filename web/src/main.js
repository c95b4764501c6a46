// The page: of a build, or of a pipeline that runs or ran, by what the document holds.
import css from "./style.css";
import { make } from "./dom.js";
import { showLive } from "./live.js";
import { showReport } from "./report.js";

document.head.append(make("style", {}, css));
const read = (id) => {
  const element = document.getElementById(id);
  return element && JSON.parse(element.textContent);
};
const report = read("report");
if (report) showReport(report);
else showLive(read("live"));
