// What the theme puts around the button that copies a block is a landmark of the page, one for each block: it is none.
new MutationObserver(() => {
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) nav.setAttribute("role", "none");
}).observe(document, { childList: true, subtree: true });
