/* Loads the module of a widget once per page (mirror_sdk/widgets/lazy_module.py). */
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

// Empties the module's text, and returns the widget's own model: only the sender of a change leads to it.
function emptied(model) {
  let widgetModel;
  const note = (sender) => (widgetModel = sender);
  model.on("change:_module_text", note);
  model.set("_module_text", `${model.get("_module_text")} `);
  model.set("_module_text", "");
  model.off("change:_module_text", note);
  return widgetModel;
}

// anywidget's handler of messages rejects all of them, also an empty one, once the widget was not ready in time.
async function receiveWithoutAnywidget(widgetModel) {
  // Pages without ipywidgets have models of their own, which need no cure.
  if (!widgetModel?._handle_comm_msg) return;
  try {
    await widgetModel._handle_comm_msg({ content: { data: {} } });
  } catch {
    const withoutAnywidget = Object.getPrototypeOf(widgetModel.constructor.prototype);
    widgetModel.comm?.on_msg(withoutAnywidget._handle_comm_msg.bind(widgetModel));
    // For what was sent until now.
    widgetModel.comm?.send({ method: "request_state" }, {});
  }
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
  const text = model.get("_module_text");
  if (text) use(text);
  const widgetModel = emptied(model);
  if (text) model.save_changes();
  await receiveWithoutAnywidget(widgetModel);
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
  // A message that comes while the module loads would be missed: it is in the model only for a moment.
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
    for (let at = element; (at = at?.closest(".mirror-widget")); at = at.parentElement) hidden = at;
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
