// Elements in one line each. Text is always text: nothing of the report is read as markup.

/** make("p", {class: "hint"}, "text", child): on* are listeners, true and false set attributes. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

/** A table that scrolls sideways by itself where the window is narrow. */
export function table(label, headings, rows) {
  const head = make(
    "tr",
    {},
    headings.map((text) => make("th", { scope: "col" }, text)),
  );
  const body = rows.map((cells) =>
    make(
      "tr",
      {},
      cells.map((cell, i) => (i === 0 ? make("th", { scope: "row" }, cell) : make("td", {}, cell))),
    ),
  );
  return make(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    make("table", {}, make("thead", {}, head), make("tbody", {}, body)),
  );
}

export function section(title, ...children) {
  const id = title.toLowerCase().replace(/\W+/g, "-");
  return make("section", { "aria-labelledby": id, id: `section-${id}` }, make("h2", { id }, title), ...children);
}
