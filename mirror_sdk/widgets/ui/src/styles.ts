/* Style sheets are adopted, not inserted: the page's policy allows no style elements, and an adopted sheet is parsed once. */

import tokens from "../tokens.css";
import styles from "../styles.css";
import fleet from "../fleet.css";
import writePanel from "../write_panel.css";

const adopted = new Set<string>();

/** Use a style sheet in the document, once. */
export function adopt(text: string): void {
  if (adopted.has(text)) return;
  adopted.add(text);
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  document.adoptedStyleSheets.push(sheet);
}

export function adoptStyles(): void {
  adopt(tokens);
  adopt(styles);
  adopt(fleet);
  adopt(writePanel);
}

/** The color of a token in the scheme of an element, as the browser computes it: `rgb(0, 114, 178)`. */
export function colorOf(element: Element, token: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--mirror-${token})`;
  probe.style.display = "none";
  element.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

/** Call `changed` when the scheme of the page changes, between light and dark. Returns a function that ends this. */
export function onSchemeChange(changed: () => void): () => void {
  const queries = ["(prefers-color-scheme: dark)", "(prefers-contrast: more)"].map((text) => matchMedia(text));
  const observer = new MutationObserver(changed);
  const attributes = { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-jp-theme-name"] };
  for (const element of [document.documentElement, document.body]) observer.observe(element, attributes);
  for (const query of queries) query.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    for (const query of queries) query.removeEventListener("change", changed);
  };
}
