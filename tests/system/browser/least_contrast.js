// The text that is hardest to read on a page, and its contrast as WCAG counts it; what is disabled is left out.
() => {
  const channels = (color) => {
    const context = new OffscreenCanvas(1, 1).getContext("2d");
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = channels(getComputedStyle(each).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255];
  };
  const contrast = (one, other) => {
    const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!element.checkVisibility() || element.closest(":disabled") || !(hasText || element.matches("input"))) continue;
    const { color, fill } = getComputedStyle(element);
    const ink = element instanceof SVGElement ? fill : color;
    found.push([contrast(channels(ink), ground(element)), `${element.tagName} ${element.textContent.slice(0, 40)}`]);
  }
  return found.sort(([one], [other]) => one - other)[0];
}
