// Marks tables and pictures that are wider than the page: a reader on a phone may not see that they scroll.
const isWide = (element) => element !== null && element.scrollWidth > element.clientWidth + 1
function markScrolling() {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset p:has(> img)"))
    box.classList.toggle("scrolls", isWide(box) || isWide(box.querySelector("table")))
}
// The theme wraps tables after the page has loaded.
addEventListener("load", () => setTimeout(markScrolling, 100))
addEventListener("resize", markScrolling)
