// The page of a build: reads the report, and puts the drawing and what was measured on it.
import { sentenceOf, showDetails } from "./details.js";
import { make } from "./dom.js";
import { licences } from "./licences.js";
import { limitSection } from "./limit.js";
import { readModel } from "./model.js";
import { figures, notesSection, outputsSection, partsSection, summary } from "./summary.js";
import { timelineSection } from "./timeline.js";
import { makeView } from "./view.js";
import { waySections } from "./ways.js";
import { makeWhatIf } from "./whatif.js";

export function showReport(report) {
  const model = readModel(report);
  const main = make("main", {});
  document.body.append(
    make("header", {}, make("h1", {}, model.report.model), summary(model), figures(model)),
    main,
    make("footer", {}, licences()),
  );
  let whatIf = null;
  const { network, panel, go } = makeView(main, model, {
    colors: ["backend", "stage", "time", ...(report.limit.seconds > 0 ? ["limit"] : [])],
    describe: (network, panel, box) => showDetails(panel, network, box, (node) => whatIf.cutButton(node)),
    sentence: sentenceOf,
  });
  whatIf = makeWhatIf(model, network);
  showDetails(panel, network, null);
  main.append(
    ...[
      ...waySections(model),
      timelineSection(model),
      whatIf.element,
      limitSection(model, go),
      partsSection(model, go),
      outputsSection(model),
      notesSection(model),
    ].filter(Boolean),
  );
  whatIf.start();
}
