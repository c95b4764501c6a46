// The page of a build: reads the report, and puts the drawing and what was measured on it. Of an application one
// chooses between the whole and the builds of its networks.
import { makeChoice } from "./choice.js";
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

/** Into `main`, which is in the document. `more(node)` makes buttons for the details. Returns the view. */
function fill(main, model, more) {
  const { limit } = model.report;
  let whatIf = null;
  const view = makeView(main, model, {
    colors: ["backend", "stage", "time", ...(limit.seconds > 0 ? ["limit"] : [])],
    describe: (network, panel, box) =>
      showDetails(panel, network, box, (node) => [whatIf.cutButton(node), more(node)]),
    sentence: sentenceOf,
  });
  const { network, panel, go } = view;
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
  return view;
}

export function showReport(report) {
  const about = make("div"),
    main = make("main", {});
  let view = null;
  const show = (one) => {
    const model = readModel(one);
    view?.leave();
    about.replaceChildren(summary(model), figures(model));
    main.replaceChildren();
    view = fill(main, model, (node) => one === report && choice.button(node));
  };
  const choice = makeChoice(report, show);
  document.body.append(
    make("header", {}, make("h1", {}, report.model), choice.element, about),
    main,
    make("footer", {}, licences()),
  );
  show(report);
}
