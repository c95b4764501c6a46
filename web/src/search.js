// Finds operators or stages by type or name, marks them in the drawing and lists them as buttons.
import { counted } from "./format.js";
import { make } from "./dom.js";

const kListed = 60;

export function makeSearch(network) {
  const input = make("input", {
    type: "search",
    id: "search",
    placeholder: "Conv, /layer1/\u2026",
    autocomplete: "off",
    spellcheck: "false",
  });
  const count = make("span", { role: "status", class: "hint", id: "found" });
  const list = make("ul", { class: "found", "aria-label": "Found", hidden: true });
  const go = (node) => {
    network.select(node.id, { show: true });
    network.window.focus();
  };
  const find = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found =
      words.length === 0 ? [] : network.model.nodes.filter((node) => words.every((word) => node.text.includes(word)));
    network.find(found.map((node) => node.id));
    count.textContent = words.length === 0 ? "" : counted(found.length, network.model.what);
    list.hidden = found.length === 0;
    list.replaceChildren(
      ...found
        .slice(0, kListed)
        .map((node) =>
          make(
            "li",
            {},
            make("button", { type: "button", onclick: () => go(node) }, make("b", {}, node.op), ` ${node.name}`),
          ),
        ),
    );
    if (found.length > kListed)
      list.append(make("li", { class: "hint" }, `and ${found.length - kListed} more: type more of the name`));
    return found;
  };
  input.addEventListener("input", find);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      input.value = "";
      find();
    } else if (event.key === "Enter") {
      const [first] = find();
      if (first) go(first);
    }
  });
  return {
    input,
    element: make("div", { class: "search" }, make("label", { for: "search" }, "Search"), input, count, list),
  };
}
