/* The single module of the widgets and of the server's page. anywidget calls its default export for each widget. */

import { h, render, type ComponentType } from "preact";
import { WidgetBridge, type Bridge, type Model } from "./bridge";
import { Empty } from "./empty";
import { Explorer } from "./explorer";
import { Fleet } from "./fleet";
import { adoptStyles } from "./styles";
import { Watcher } from "./watcher";
import { WritePanel } from "./write_panel";

export { comparable, mountPage } from "./page/mount";

type Component = ComponentType<{ bridge: Bridge<never> }>;

/** The components by the name that the widget in Python gives as `component`. */
const COMPONENTS: Record<string, Component> = {
  watcher: Watcher as Component,
  explorer: Explorer as Component,
  fleet: Fleet as Component,
  write_panel: WritePanel as Component,
};

/* The kernel sends the state after the widget itself, which a page may show before. */
function Started({ bridge, component }: { bridge: Bridge<never>; component: Component }) {
  const hasState = Object.keys(bridge.state.value ?? {}).length > 0;
  return hasState ? h(component, { bridge }) : h(Empty, { kind: "loading", title: "Waiting for the kernel …" });
}

/* JupyterLab would handle letters as its own commands, and Notebook arrows too: both check the focused element. */
function keepKeys({ target }: Event): void {
  (target as Element).setAttribute("data-lm-suppress-shortcuts", "true");
}

export default () => {
  let bridge: WidgetBridge<never> | undefined;
  return {
    initialize({ model }: { model: Model }): () => void {
      adoptStyles();
      const made = new WidgetBridge<never>(model);
      bridge = made;
      return () => made.close();
    },
    render({ model, el }: { model: Model; el: HTMLElement }): () => void {
      const name = String(model.get("_component"));
      const component = COMPONENTS[name];
      const root = document.createElement("div");
      root.className = "mirror-ui";
      root.addEventListener("focusin", keepKeys);
      el.append(root);
      if (component && bridge) render(h(Started, { bridge, component }), root);
      else root.textContent = `This page is older than the widget ${name}. Reload the page, and run the cell again.`;
      return () => {
        render(null, root);
        root.remove();
      };
    },
  };
};
