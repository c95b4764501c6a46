// Of an application's page: whether all of it is shown, or how one of its networks was built.
import { make } from "./dom.js";

/** {element, button(node)}: the choice, null where there is none; and what goes into the details of a node of the
    application, where that is a network with a build of its own. */
export function makeChoice(report, show) {
  const { networks } = report;
  if (networks.length === 0) return { element: null, button: () => null };
  const choose = make(
    "select",
    { id: "shown", onchange: () => show(networks[choose.selectedIndex - 1] ?? report) },
    make("option", {}, "the application"),
    networks.map(({ node, model }) => make("option", {}, `network ${node}: ${model}`)),
  );
  const unused = report.simple.some(({ name }) => name === report.chosen);
  const element = [
    make("div", { class: "field" }, make("label", { for: "shown" }, "Show"), choose),
    make(
      "p",
      { class: "hint" },
      "Each network was built by itself first, and then all were placed together.",
      unused && " The chosen plan was faster with the networks as the application has them.",
    ),
  ];
  const button = ({ name }) => {
    const place = networks.findIndex(({ node }) => name === node || name.startsWith(`${node}/`));
    if (place < 0) return null;
    const go = () => {
      choose.selectedIndex = place + 1;
      show(networks[place]);
      choose.focus();
    };
    return make("button", { type: "button", id: "own-build", onclick: go }, "Show how this network was built");
  };
  return { element, button };
}
