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

/** A table; where the window is narrow each row is a card, whose lines begin with the heading of their column. Roles are
    said as a table that is shown so is none any more. */
export function table(label, headings, rows) {
  const head = make(
    "tr",
    { role: "row" },
    headings.map((text) => make("th", { scope: "col", role: "columnheader" }, text)),
  );
  const cellOf = (content, i) =>
    i === 0
      ? make("th", { scope: "row", role: "rowheader" }, content)
      : make("td", { role: "cell", "data-heading": headings[i] }, make("div", {}, content));
  const body = rows.map((cells) => make("tr", { role: "row" }, cells.map(cellOf)));
  return make(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    make(
      "table",
      { role: "table", "aria-label": label },
      make("thead", { role: "rowgroup" }, head),
      make("tbody", { role: "rowgroup" }, body),
    ),
  );
}

/** One of the figures of a `dl`: its name, its value in large letters and a note in small ones. */
export function figure(name, value = "", note = "") {
  const shown = make("span", { class: "figure-value" }, value),
    below = make("span", { class: "hint" }, note);
  return { element: make("div", {}, make("dt", {}, name), make("dd", {}, shown, below)), value: shown, note: below };
}

export function section(title, ...children) {
  const name = title.toLowerCase().replace(/\W+/g, "-"),
    id = `title-${name}`;
  return make("section", { "aria-labelledby": id, id: `section-${name}` }, make("h2", { id }, title), ...children);
}
