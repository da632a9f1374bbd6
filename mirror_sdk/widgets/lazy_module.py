"""A module of the page that is large: loaded once a page, not before its widget is known there, and in no notebook.

anywidget gives up on a widget whose module is not ready within two seconds, and tells it nothing from then on. A slow
page needs longer for some megabytes: here a few lines are ready at once, and load the rest. A page that runs the cell
gets it with the state of the widget, since a kernel that is busy responds to nothing; it then empties that state, which
the notebook would store. Any other page requests the module.
"""

from __future__ import annotations

from typing import Any, ClassVar

import anywidget
import traitlets

from mirror_sdk.widgets.cells import running_cell

_ESM = """
const TOLD_ONCE = ["_py2js_update", "_py2js_relayout", "_py2js_restyle"];
const REQUEST_AGAIN_MS = 10000;
const NO_KERNEL_MS = 10000;

function entry(id) {
  const modules = (globalThis.mirrorModules ??= new Map());
  if (!modules.has(id)) {
    const made = { requestedAt: -Infinity };
    made.module = new Promise((resolve) => (made.resolve = resolve));
    modules.set(id, made);
  }
  return modules.get(id);
}

// The first widget requests the module for all; another one does where that is closed before it came.
async function load(model) {
  const wanted = entry(model.get("_module_id"));
  const use = (text) => {
    if (wanted.isThere) return;
    wanted.isThere = true;
    const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    wanted.resolve(import(url).finally(() => URL.revokeObjectURL(url)));
  };
  const receive = (message) => message?.module !== undefined && use(message.module);
  const request = () => {
    if (wanted.isThere || performance.now() - wanted.requestedAt < REQUEST_AGAIN_MS) return;
    wanted.requestedAt = performance.now();
    model.send({ request: "module" });
  };
  model.on("msg:custom", receive);
  if (model.get("_module_text")) {
    use(model.get("_module_text"));
    model.set("_module_text", "");
    model.save_changes();
  }
  request();
  const timer = setInterval(request, 1000);
  try {
    return await wanted.module;
  } finally {
    clearInterval(timer);
    model.off("msg:custom", receive);
  }
}

async function begin(model) {
  const missed = [];
  const listeners = TOLD_ONCE.map((name) => [
    `change:${name}`,
    () => model.get(name) && missed.push([name, model.get(name)]),
  ]);
  listeners.forEach(([name, note]) => model.on(name, note));
  const module = await load(model);
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

// Without a kernel, in a notebook that was only opened, nothing responds: the copy in the notebook is shown instead.
function hideWhileMissing(element, begun) {
  let hidden;
  const timer = setTimeout(() => {
    for (let outer = element; (outer = outer.parentElement?.closest(".mirror-widget")); ) hidden = outer;
    hidden?.classList.replace("mirror-widget", "mirror-widget-missing");
  }, NO_KERNEL_MS);
  begun.finally(() => {
    clearTimeout(timer);
    hidden?.classList.replace("mirror-widget-missing", "mirror-widget");
  });
}

export default () => {
  let begun;
  return {
    initialize({ model }) {
      begun = begin(model);
    },
    async render(context) {
      hideWhileMissing(context.el, begun);
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
    module_text: ClassVar[str]

    def __init__(self, *arguments: Any, **state: Any) -> None:
        super().__init__(*arguments, **state)
        self.on_msg(self._send_module)

    @traitlets.default("_module_text")
    def _text_for_a_page(self) -> str:
        return self.module_text if running_cell() is not None else ""

    def _send_module(self, _: object, content: Any, __: object) -> None:
        if content == {"request": "module"}:
            self.send({"module": self.module_text})
