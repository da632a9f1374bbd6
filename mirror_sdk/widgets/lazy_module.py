"""A module of the page that is large, loaded once a page and not before its widget is known there.

anywidget gives up on a widget whose module is not ready within two seconds, and tells it nothing from then on. A slow
page needs longer for some megabytes: here a few lines are ready at once, and load the rest.
"""

from __future__ import annotations

import anywidget
import traitlets

_ESM = """
const TOLD_ONCE = ["_py2js_update", "_py2js_relayout", "_py2js_restyle"];

function load(id, text) {
  const loaded = (globalThis.mirrorModules ??= new Map());
  if (!loaded.has(id)) {
    const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    loaded.set(id, import(url).finally(() => URL.revokeObjectURL(url)));
  }
  return loaded.get(id);
}

async function begin(model) {
  const missed = [];
  const listeners = TOLD_ONCE.map((name) => [
    `change:${name}`,
    () => model.get(name) && missed.push([name, model.get(name)]),
  ]);
  listeners.forEach(([name, note]) => model.on(name, note));
  const module = await load(model.get("_module_id"), model.get("_module_text"));
  const widget = await module.default();
  await widget.initialize?.({ model });
  listeners.forEach(([name, note]) => model.off(name, note));
  // What is told while the module loads would be missed: it stands in the model for a moment alone.
  for (const [name, value] of missed) {
    model.set(name, value);
    model.set(name, null);
  }
  return widget;
}

export default () => {
  let begun;
  return {
    initialize({ model }) {
      begun = begin(model);
    },
    async render(context) {
      const end = await (await begun).render(context);
      // A module that fits itself to the page looks when the window changes, not when its place does.
      const observer = new ResizeObserver(() => globalThis.dispatchEvent(new Event("resize")));
      // What is loaded already is rendered before it has its place.
      observer.observe(context.el.parentElement ?? context.el);
      return () => {
        observer.disconnect();
        return end?.();
      };
    },
  };
};
"""


class LazyModule(anywidget.AnyWidget):
    """A widget with a large module; a subclass gives it, and an id that says which it is."""

    _esm = _ESM
    _module_id = traitlets.Unicode().tag(sync=True)
    _module_text = traitlets.Unicode().tag(sync=True)
