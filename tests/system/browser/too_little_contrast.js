// Returns the texts, fields and colored shapes with too little contrast: the element, the ratio, and both colors.
// Alpha and opacity are blended with the background. Disabled and invisible elements are exempt.
widget => {
  const parse = text => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return text.startsWith("color(srgb") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
  };
  const over = (top, under) => top.slice(0, 3).map((one, i) => one * top[3] + under[i] * (1 - top[3])).concat(1);
  const chain = element => {
    const found = [];
    for (let one = element; one; one = one.parentElement || one.getRootNode().host) found.unshift(one);
    return found;
  };
  const behind = element => chain(element).reduce(
    (under, one) => over(parse(getComputedStyle(one).backgroundColor), under), [255, 255, 255, 1]);
  const light = color => {
    const [r, g, b] = color.slice(0, 3).map(one => one / 255)
      .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const wrong = [], seen = new Set();
  const check = (element, name, color, under, least) => {
    const opacity = chain(element).reduce((all, one) => all * getComputedStyle(one).opacity, 1);
    const shown = over([...color.slice(0, 3), color[3] * opacity], under);
    const found = ratio(shown, under);
    seen.add(name);
    const colors = `${shown.map(Math.round)} on ${under.map(Math.round)}`;
    if (found < least) wrong.push(`${name}: ${found.toFixed(2)} < ${least}, ${colors}`);
  };
  const visible = element => element.checkVisibility({opacityProperty: true, visibilityProperty: true})
    && element.getBoundingClientRect().width > 1 && !element.closest(":disabled, [aria-disabled=true], .ag-hidden");
  const walker = document.createTreeWalker(widget, NodeFilter.SHOW_TEXT);
  for (let node; node = walker.nextNode();) {
    const element = node.parentElement, text = node.textContent.trim();
    if (!text || ["STYLE", "SCRIPT", "OPTION"].includes(element.tagName) || !visible(element)) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const color = element instanceof SVGElement && style.fill !== "none" ? style.fill : style.color;
    check(element, text.slice(0, 40), parse(color), behind(element), isLarge ? 3 : 4.5);
  }
  for (const field of widget.querySelectorAll("input, select, textarea")) {
    if (!visible(field) || ["checkbox", "radio", "range", "file"].includes(field.type)) continue;
    check(field, `field ${field.ariaLabel || field.title || field.placeholder}`,
      parse(getComputedStyle(field).color), behind(field), 4.5);
  }
  for (const sign of widget.querySelectorAll(".progress-bar"))
    if (visible(sign)) check(sign, sign.className, parse(getComputedStyle(sign).backgroundColor),
      behind(sign.parentElement), 3);
  return {wrong, seen: seen.size};
}
