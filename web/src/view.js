// The drawing with what belongs to it: search, colours, buttons, details; of a report or of what runs.
import { make } from "./dom.js";
import { counted } from "./format.js";
import { listen } from "./input.js";
import { Network } from "./network.js";
import { makeSearch } from "./search.js";

const help = (what) =>
  `Arrow keys go from ${what} to ${what}, with Shift they move the drawing; plus and minus zoom, 0 shows all, F folds or unfolds repeated blocks, Enter goes to the details, slash to the search.`;

const kColorNames = { limit: "fraction of the machine's limit" };

function makeLegend(network, colors) {
  const element = make("ul", { class: "legend", "aria-label": "Colours" });
  const show = (pairs) =>
    element.replaceChildren(
      ...pairs.map(([color, text]) =>
        make("li", {}, make("span", { class: "swatch", style: `background:${color}`, "aria-hidden": "true" }), text),
      ),
    );
  show(network.colors.key);
  const choose = make(
    "select",
    { id: "color", onchange: (event) => show(network.colorBy(event.target.value)) },
    colors.map((name) => make("option", { value: name }, kColorNames[name] ?? name)),
  );
  return { element, choose };
}

function makeToolbar(network, search, colors) {
  const { element, choose } = makeLegend(network, colors);
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

/** Puts the view at the end of `main`, which is in the document. `colors`: names for the choice, the first is taken
    at first. `describe(network, panel, box)` fills the details, `sentence(network, box)` is what a screen reader says.
    Who takes the view out of the document calls leave(). */
export function makeView(main, model, { colors, describe, sentence }) {
  const canvas = make("canvas", { "aria-hidden": "true" });
  const window_ = make(
    "div",
    {
      id: "drawing",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "drawing",
      "aria-label": `Network of ${counted(model.nodes.length, model.what)}`,
      "aria-describedby": "help",
    },
    canvas,
  );
  const panel = make("aside", { id: "details", tabindex: 0, "aria-label": `Details of the selected ${model.what}` });
  const said = make("div", { role: "status", class: "unseen", id: "said" });
  const body = make("div", { class: "network" }, window_, panel);
  main.append(body); // So that the window has its size.
  const network = new Network(model, window_, canvas, colors[0], (box) => {
    describe(network, panel, box);
    said.textContent = sentence(network, box);
    window_.dataset.selected = box ? box.nodes[0].id : "";
  });
  const search = makeSearch(network),
    left = new AbortController();
  listen(network, window_, search.input, panel, left.signal);
  body.before(make("h2", { class: "unseen" }, "Network"), ...makeToolbar(network, search, colors));
  main.append(make("p", { class: "hint", id: "help" }, help(model.what)), said);
  const go = (id) => {
    network.select(id, { show: true });
    window_.focus();
    window_.scrollIntoView({ block: "nearest" });
  };
  return { network, panel, go, leave: () => left.abort() };
}
