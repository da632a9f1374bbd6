// Returns the elements of a widget that are wider than their container, and the texts that are cut without a tooltip. Tables
// that scroll sideways belong to them.
widget => {
  const wrong = [];
  const described = element => `${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""}`;
  // Cells and headings show cut texts in a tooltip of the table.
  const isInTable = element => !element.matches(".ag-grid-viewport") && element.closest(".ag-root-wrapper") !== null;
  const isForScreenReaders = element => element.closest(".mirror-hidden, [class*='visually-hidden']") !== null;
  const right = widget.getBoundingClientRect().right;
  for (const element of widget.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    if (isInTable(element) || style.display === "inline" || !element.clientWidth || !element.checkVisibility()) continue;
    if (element.closest("svg, canvas, select, option") || style.clipPath !== "none") continue;
    const isOver = element.scrollWidth > element.clientWidth + 1;
    if (isOver && ["auto", "scroll"].includes(style.overflowX)) {
      wrong.push(`scrolls sideways: ${described(element)} ${element.scrollWidth} > ${element.clientWidth}`);
    }
    if (isOver && style.textOverflow === "ellipsis" && element.tagName !== "INPUT" && !element.closest("[title]")) {
      wrong.push(`cut without a tooltip: ${described(element)} ${element.textContent}`);
    }
    if (element.getBoundingClientRect().right > right + 1 && !element.closest(".u-wrap")) {
      wrong.push(`too wide: ${described(element)}`);
    }
  }
  return wrong;
}
