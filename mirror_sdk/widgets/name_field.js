/* A field for a name, or for several (mirror_sdk/widgets/name_field.py). */
const MOST_OFFERED = 20;

/* What stands before the name that is being typed, and what is typed of it. */
function split(text) {
  const comma = text.lastIndexOf(",") + 1;
  return { before: comma ? `${text.slice(0, comma)} ` : "", begun: text.slice(comma).trimStart() };
}

/* The names that may be meant: those that begin so before those that hold it, none twice. */
function fitting(names, { before, begun }) {
  const given = new Set(before.split(",").map((name) => name.trim()));
  const sought = begun.toLowerCase();
  const open = names.filter((name) => !given.has(name) && !name.includes(",") && name.toLowerCase().includes(sought));
  const beginning = open.filter((name) => name.toLowerCase().startsWith(sought));
  return { beginning, all: [...beginning, ...open.filter((name) => !beginning.includes(name))] };
}

/* How far all of them are the same, as they are written. */
function common(names) {
  let length = 0;
  while (length < names[0].length && names.every((name) => name[length] === names[0][length])) length += 1;
  return names[0].slice(0, length);
}

function render({ model, el }) {
  const id = `mirror-names-${Math.random().toString(36).slice(2)}`;
  const label = document.createElement("label");
  const input = document.createElement("input");
  const list = document.createElement("datalist");
  el.classList.add("widget-inline-hbox", "widget-text", "jupyter-widget-text");
  label.className = "widget-label";
  label.htmlFor = `${id}-input`;
  label.textContent = model.get("description");
  label.style.width = "70px";
  list.id = id;
  Object.assign(input, { id: `${id}-input`, type: "text", autocomplete: "off", placeholder: model.get("placeholder") });
  input.setAttribute("list", id);
  input.value = model.get("value");
  el.append(label, input, list);

  const offer = () => {
    const names = model.get("names");
    const typed = split(input.value);
    // Of names that are taken alone the browser itself shows those that hold what is typed.
    const offered = model.get("is_list")
      ? fitting(names, typed).all.slice(0, MOST_OFFERED).map((name) => typed.before + name)
      : names;
    list.replaceChildren(...offered.map((value) => Object.assign(document.createElement("option"), { value })));
  };
  const complete = (event) => {
    const typed = split(input.value);
    const { beginning } = typed.begun ? fitting(model.get("names"), typed) : { beginning: [] };
    if (!beginning.length) return;
    const completed = common(beginning);
    // Where there is nothing to add, Tab leads to the next field as everywhere.
    if (completed.length <= typed.begun.length) return;
    event.preventDefault();
    input.value = typed.before + completed;
    offer();
  };
  const commit = () => {
    model.set("value", input.value);
    model.save_changes();
  };
  input.addEventListener("focus", offer);
  input.addEventListener("input", offer);
  input.addEventListener("change", commit);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Tab" && !event.shiftKey && model.get("is_list")) complete(event);
    if (event.key === "Enter") commit();
  });
  const take = () => (input.value = model.get("value"));
  model.on("change:value", take);
  // What is typed stays as it is, whenever the names come.
  model.on("change:names", offer);
  return () => {
    model.off("change:value", take);
    model.off("change:names", offer);
  };
}

export default () => ({ render });
