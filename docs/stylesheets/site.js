// Marks tables and pictures that are wider than the page: a reader on a phone may not see that they scroll.
const isWide = (element) => element !== null && element.scrollWidth > element.clientWidth + 1
function markScrolling() {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset p:has(> img)"))
    box.classList.toggle("scrolls", isWide(box) || isWide(box.querySelector("table")))
}
// The theme wraps tables after the page has loaded.
addEventListener("load", () => setTimeout(markScrolling, 100))
addEventListener("resize", markScrolling)
// The search reads "--gpus" as "without gpus", and "name: amd" as a field called name. People type options and messages as
// they stand, so these signs are left out of what the search's worker is asked (messages of the kind 2).
const QUERY = 2
const post = Worker.prototype.postMessage
Worker.prototype.postMessage = function (message, ...rest) {
  const isQuery = message?.type === QUERY && typeof message.data === "string"
  const asked = isQuery ? { ...message, data: message.data.replace(/(^|\s)[-+]+(?=\S)|[:~^]/g, "$1 ") } : message
  return post.call(this, asked, ...rest)
}
