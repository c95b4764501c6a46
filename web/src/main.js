// The page: reads the report, and puts the drawing and what was measured on it.
import css from "./style.css";
import { showDetails, sentenceOf } from "./details.js";
import { make } from "./dom.js";
import { counted } from "./format.js";
import { listen } from "./input.js";
import { licences } from "./licences.js";
import { readModel } from "./model.js";
import { Network } from "./network.js";
import { makeSearch } from "./search.js";
import { notesSection, outputsSection, partsSection, summary } from "./summary.js";
import { timelineSection } from "./timeline.js";
import { waySections } from "./ways.js";
import { makeWhatIf } from "./whatif.js";

const kHelp =
  "Arrow keys go from operator to operator, with Shift they move the drawing; plus and minus zoom, 0 shows all, F folds or unfolds repeated blocks, Enter goes to the details, slash to the search.";

function legend(key, network) {
  const element = make("ul", { class: "legend", "aria-label": "Colours" });
  const show = (pairs) =>
    element.replaceChildren(
      ...pairs.map(([color, text]) =>
        make("li", {}, make("span", { class: "swatch", style: `background:${color}`, "aria-hidden": "true" }), text),
      ),
    );
  show(key);
  const choose = make(
    "select",
    { id: "color", onchange: (event) => show(network.colorBy(event.target.value)) },
    ["backend", "stage", "time"].map((name) => make("option", { value: name }, name)),
  );
  return { element, choose };
}

function toolbar(network, search) {
  const { element, choose } = legend(network.colors.key, network);
  const button = (text, label, action) =>
    make("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
  const bar = make(
    "div",
    { class: "toolbar" },
    search.element,
    make("div", { class: "field" }, make("label", { for: "color" }, "Colour"), choose),
    make(
      "div",
      { class: "buttons", role: "group", "aria-label": "View" },
      button("+", "Zoom in", () => network.move((camera) => camera.zoom(1.25))),
      button("\u2212", "Zoom out", () => network.move((camera) => camera.zoom(0.8))),
      button("Fit", "Fit all of the network", () => network.fit()),
      network.runs.length > 0 && button("Fold", "Fold all repeated blocks", () => network.foldAll(true)),
      network.runs.length > 0 && button("Unfold", "Unfold all repeated blocks", () => network.foldAll(false)),
    ),
  );
  return [bar, element];
}

function start() {
  document.head.append(make("style", {}, css));
  const model = readModel(JSON.parse(document.getElementById("report").textContent));
  const canvas = make("canvas", { "aria-hidden": "true" });
  const window_ = make(
    "div",
    {
      id: "drawing",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "drawing",
      "aria-label": `Network of ${counted(model.nodes.length, "operator")}`,
      "aria-describedby": "help",
    },
    canvas,
  );
  const panel = make("aside", { id: "details", tabindex: -1, "aria-label": "Details of the selected operator" });
  const said = make("div", { role: "status", class: "unseen", id: "said" });
  const help = make("p", { class: "hint", id: "help" }, kHelp);
  const main = make("main", {});
  document.body.append(
    make("header", {}, make("h1", {}, model.report.model), summary(model)),
    main,
    make("footer", {}, licences()),
  );
  const body = make("div", { class: "network" }, window_, panel);
  main.append(body); // So that the window has its size.
  let whatIf = null;
  const network = new Network(model, window_, canvas, (box) => {
    showDetails(panel, network, box, (node) => whatIf.cutButton(node));
    said.textContent = sentenceOf(network, box);
    window_.dataset.selected = box ? box.nodes[0].id : "";
  });
  whatIf = makeWhatIf(model, network);
  const search = makeSearch(network);
  listen(network, window_, search.input, panel);
  main.prepend(make("h2", { class: "unseen" }, "Network"), ...toolbar(network, search));
  showDetails(panel, network, null);
  const go = (id) => {
    network.select(id, { show: true });
    window_.focus();
    window_.scrollIntoView({ block: "nearest" });
  };
  main.append(
    help,
    said,
    ...[
      ...waySections(model),
      timelineSection(model),
      whatIf.element,
      partsSection(model, go),
      outputsSection(model),
      notesSection(model),
    ].filter(Boolean),
  );
  whatIf.start();
}

start();
