/* The table of the widgets: AG Grid on the rows of a `Grid` (mirror_sdk/widgets/grid.py), as an anywidget module. */

import {
  CellApiModule,
  CellStyleModule,
  ClientSideRowModelApiModule,
  ClientSideRowModelModule,
  ColumnApiModule,
  ColumnAutoSizeModule,
  EventApiModule,
  ModuleRegistry,
  NumberFilterModule,
  QuickFilterModule,
  RenderApiModule,
  RowApiModule,
  RowSelectionModule,
  ScrollApiModule,
  TextFilterModule,
  TooltipModule,
  createGrid,
  themeQuartz,
} from "ag-grid-community";

ModuleRegistry.registerModules([
  CellApiModule,
  CellStyleModule,
  ClientSideRowModelApiModule,
  ClientSideRowModelModule,
  ColumnApiModule,
  ColumnAutoSizeModule,
  EventApiModule,
  NumberFilterModule,
  QuickFilterModule,
  RenderApiModule,
  RowApiModule,
  RowSelectionModule,
  ScrollApiModule,
  TextFilterModule,
  TooltipModule,
]);

const THEME = themeQuartz.withParams({
  accentColor: "var(--mirror-accent)",
  backgroundColor: "var(--mirror-back)",
  borderColor: "var(--mirror-line)",
  browserColorScheme: "inherit",
  fontFamily: "inherit",
  fontSize: 13,
  foregroundColor: "var(--mirror-text)",
  headerBackgroundColor: "var(--mirror-shade)",
  headerFontWeight: 600,
  headerTextColor: "var(--mirror-text)",
  rowHoverColor: "var(--mirror-shade)",
  selectedRowBackgroundColor: "var(--mirror-selected)",
  spacing: 5,
  wrapperBorderRadius: 4,
});

const MISSING = "—";
const TONES = ["bad", "warn", "note", "good", "dim"];
/* Up to this many characters, a cell shows its text whole. */
const TOLD_WHOLE = 16;
const COLLATOR = new Intl.Collator("en", { numeric: true });

const isGiven = (value) => value !== null && value !== undefined && value !== "";

/* What has no value stands last, whichever way the column is sorted. */
function compare(one, other, _node, _otherNode, isDescending) {
  if (!isGiven(one) || !isGiven(other)) {
    return (isGiven(other) - isGiven(one)) * (isDescending ? -1 : 1);
  }
  if (typeof one === "number" && typeof other === "number") return one - other;
  return COLLATOR.compare(String(one), String(other));
}

function text(value) {
  if (!isGiven(value)) return "";
  return typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: 15 }) : String(value);
}

function columnOf({ name, heading, kind, width, sort }) {
  const isNumber = kind === "number";
  const rules = TONES.map((tone) => [`mirror-tone-${tone}`, ({ data }) => data.tones?.[name] === tone]);
  return {
    colId: name,
    headerName: heading,
    headerTooltip: heading,
    valueGetter: ({ data }) => data[name],
    valueFormatter: ({ value }) => text(value) || MISSING,
    comparator: compare,
    initialSort: sort,
    filter: isNumber ? "agNumberColumnFilter" : "agTextColumnFilter",
    filterValueGetter: ({ data }) => (isNumber ? data[name] : text(data[name])),
    getQuickFilterText: ({ value }) => text(value),
    tooltipValueGetter: ({ data, value }) => data.hints?.[name] || (text(value).length > TOLD_WHOLE ? text(value) : null),
    cellClass: { text: "", time: "mirror-figures", number: "mirror-figures ag-right-aligned-cell" }[kind],
    headerClass: isNumber ? "ag-right-aligned-header" : "",
    cellClassRules: Object.fromEntries(rules),
    ...(width ? { width, minWidth: 60 } : { flex: 1, minWidth: 110 }),
  };
}

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, attributes);
  made.append(...children);
  return made;
}

/* JupyterLab would take letters, and Notebook arrows too, as commands of its own: both look at the element with the focus
   before they look at what is around it. */
const keepKeys = ({ target }) => target.setAttribute("data-lm-suppress-shortcuts", "true");

/* The rows of one Grid, for all its views. What Python sends before this module is loaded is asked for again; a kernel that
   is busy does not hear that, and has them all in the state until it does. */
class Rows {
  constructor(model) {
    this.model = model;
    this.take({ ...model.get("table"), all: true });
    this.views = new Set();
    model.on("msg:custom", (message) => this.hear(message));
    model.on("change:table", () => this.hear({ ...model.get("table"), all: true }));
    model.send({ have: this.version });
  }

  take({ version, rows, gone = [], all }) {
    if (all) this.byKey = new Map();
    for (const key of gone) this.byKey.delete(key);
    for (const row of rows) this.byKey.set(row.key, row);
    this.version = version;
  }

  hear(message) {
    if (message.version <= this.version) return;
    if (!message.all && message.version !== this.version + 1) {
      this.model.send({ have: this.version });
      return;
    }
    const known = new Set(this.byKey.keys());
    this.take(message);
    for (const view of this.views) view.show(message, known);
  }

  get all() {
    return [...this.byKey.values()];
  }
}

class View {
  constructor(model, el, rows) {
    this.model = model;
    this.rows = rows;
    this.label = model.get("label");
    this.count = element("span", { className: "mirror-dim mirror-grid-count" });
    this.search = element("input", { type: "search", placeholder: "Search", value: model.get("search") });
    this.search.setAttribute("aria-label", `Search in ${this.label}`);
    this.copyButton = element("button", { type: "button", textContent: "Copy", className: "mirror-grid-copy" });
    this.copyButton.title = "Copy the selected rows, or all that are shown, for a spreadsheet";
    const bar = element("div", { className: "mirror-grid-bar" }, this.search, this.copyButton, this.count);
    this.box = element("div", { className: "mirror-grid" });
    this.box.style.height = `${model.get("height_px")}px`;
    el.append(bar, this.box);
    this.api = createGrid(this.box, this.options());
    this.api.setGridAriaProperty("label", this.label);
    this.listen(el);
    this.select();
  }

  options() {
    const selection = this.model.get("selection");
    return {
      theme: THEME,
      columnDefs: this.model.get("columns").map(columnOf),
      rowData: this.rows.all,
      getRowId: ({ data }) => data.key,
      rowSelection:
        selection === "none"
          ? undefined
          : {
              mode: selection === "many" ? "multiRow" : "singleRow",
              checkboxes: selection === "many",
              headerCheckbox: selection === "many",
              selectAll: "filtered",
              enableClickSelection: true,
              enableSelectionWithoutKeys: selection === "many",
            },
      quickFilterText: this.model.get("search"),
      tooltipShowDelay: 500,
      maintainColumnOrder: true,
      animateRows: false,
      suppressCellFocus: false,
      // Without, keys go to the page while rows change below the focus.
      suppressScrollOnNewData: true,
      noRowsOverlayComponent: class {
        init() {
          this.gui = element("div", { className: "mirror-dim", textContent: "" });
        }
        getGui() {
          return this.gui;
        }
      },
      onModelUpdated: () => this.tellCount(),
      onSelectionChanged: ({ source }) => this.selectionChanged(source),
      onCellFocused: ({ rowIndex, column }) => this.focused(rowIndex, column),
    };
  }

  listen(el) {
    this.search.addEventListener("input", () => {
      this.api.setGridOption("quickFilterText", this.search.value);
      this.model.set("search", this.search.value);
      this.model.save_changes();
    });
    this.copyButton.addEventListener("click", () => this.copyByButton());
    this.box.addEventListener("copy", (event) => this.copy(event));
    const changes = {
      "change:search": () => {
        if (this.search.value === this.model.get("search")) return;
        this.search.value = this.model.get("search");
        this.api.setGridOption("quickFilterText", this.search.value);
      },
      "change:selected": () => this.select(),
      "change:columns": () => this.api.setGridOption("columnDefs", this.model.get("columns").map(columnOf)),
      "change:height_px": () => (this.box.style.height = `${this.model.get("height_px")}px`),
      "change:empty_text": () => this.tellCount(),
    };
    for (const [name, tell] of Object.entries(changes)) this.model.on(name, tell);
    requestAnimationFrame(() => (el.closest(".mirror-widget") ?? el).addEventListener("focusin", keepKeys));
    this.end = () => {
      for (const [name, tell] of Object.entries(changes)) this.model.off(name, tell);
      this.rows.views.delete(this);
      this.api.destroy();
    };
    this.rows.views.add(this);
  }

  show({ rows, gone = [], all }, known) {
    if (all) {
      this.api.setGridOption("rowData", this.rows.all);
    } else {
      this.api.applyTransaction({
        add: rows.filter(({ key }) => !known.has(key)),
        update: rows.filter(({ key }) => known.has(key)),
        remove: gone.map((key) => ({ key })),
      });
    }
    this.select();
  }

  tellCount() {
    if (!this.api) return;
    const shown = this.api.getDisplayedRowCount();
    const all = this.rows.byKey.size;
    const chosen = this.model.get("selected").length;
    const parts = all ? [shown === all ? `${all.toLocaleString("en")} rows` : `${shown.toLocaleString("en")} of ${all.toLocaleString("en")} rows`] : [];
    if (chosen) parts.push(`${chosen.toLocaleString("en")} selected`);
    if (!all) parts.push(this.model.get("empty_text"));
    else if (!shown) parts.push("no row fits the search and the filters");
    const said = parts.filter(Boolean).join(" · ");
    if (this.count.textContent !== said) this.count.textContent = said;
  }

  /* Have the rows selected that Python holds as selected. */
  select() {
    if (this.model.get("selection") === "none") return;
    const wanted = new Set(this.model.get("selected"));
    const on = [];
    const off = [];
    this.api.forEachNode((node) => {
      if (wanted.has(node.id) !== Boolean(node.isSelected())) (node.isSelected() ? off : on).push(node);
    });
    if (off.length) this.api.setNodesSelected({ nodes: off, newValue: false });
    if (on.length) this.api.setNodesSelected({ nodes: on, newValue: true });
    this.tellCount();
  }

  selectionChanged(source) {
    if (source.startsWith("api") || source === "rowDataChanged") return;
    const selected = this.api.getSelectedNodes().map(({ id }) => id);
    // The state is held back while the kernel works on what came before it. A click on a button is not, and is to find
    // these rows selected.
    this.model.send({ selected });
    this.model.set("selected", selected);
    this.model.save_changes();
    this.tellCount();
  }

  focused(rowIndex, column) {
    const node = rowIndex === null || !column ? undefined : this.api.getDisplayedRowAtIndex(rowIndex);
    if (!node) return;
    const active = { key: node.id, column: column.getColId() };
    const { key, column: name } = this.model.get("active");
    if (active.key === key && active.column === name) return;
    this.model.set("active", active);
    this.model.save_changes();
  }

  copy(event) {
    // What somebody marked in a field is copied as ever.
    if (event.target instanceof HTMLInputElement) return;
    const chosen = this.chosen();
    const focused = this.api.getFocusedCell();
    const node = focused && this.api.getDisplayedRowAtIndex(focused.rowIndex);
    if (!chosen.length && !node) return;
    event.clipboardData.setData(
      "text/plain",
      chosen.length ? this.lines(chosen) : field(node.data[focused.column.getColId()]),
    );
    event.preventDefault();
  }

  copyByButton() {
    const chosen = this.chosen();
    const shown = [];
    if (!chosen.length) this.api.forEachNodeAfterFilterAndSort((node) => shown.push(node));
    const nodes = chosen.length ? chosen : shown;
    const write = (event) => {
      event.clipboardData.setData("text/plain", this.lines(nodes));
      event.preventDefault();
      event.stopImmediatePropagation();
    };
    // Unlike navigator.clipboard, this works on pages without TLS too.
    document.addEventListener("copy", write, { capture: true, once: true });
    document.execCommand("copy");
    document.removeEventListener("copy", write, { capture: true });
    this.count.textContent = `${nodes.length.toLocaleString("en")} rows copied`;
  }

  /* The selected rows that are shown, in the order of the table. */
  chosen() {
    const nodes = [];
    this.api.forEachNodeAfterFilterAndSort((node) => node.isSelected() && nodes.push(node));
    return nodes;
  }

  lines(nodes) {
    const columns = this.api.getAllDisplayedColumns().filter((column) => !column.getColId().startsWith("ag-Grid"));
    const head = columns.map((column) => field(column.getColDef().headerName));
    const body = nodes.map(({ data }) => columns.map((column) => field(data[column.getColId()])).join("\t"));
    return [head.join("\t"), ...body].join("\n");
  }
}

const FORMULA = /^'*(?:[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]|\{=)/;
/* A number, with its unit: nothing in it is called or computed. */
const QUANTITY = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?: [^=+\-@|!(){}]*)?$/i;

/* A cell of a spreadsheet: one line, and no formula, whatever a device calls itself. */
function field(value) {
  if (!isGiven(value)) return "";
  if (typeof value !== "string") return String(value);
  const line = value.replace(/[\t\r\n]+/g, " ");
  if (FORMULA.test(value) && !QUANTITY.test(value)) return `'${line}`;
  // A quote at the beginning would take all up to the next one for one cell, over tabs and lines.
  return line.startsWith('"') ? `"${line.replaceAll('"', '""')}"` : line;
}

export default () => {
  let rows;
  return {
    initialize({ model }) {
      rows = new Rows(model);
    },
    render({ model, el }) {
      const view = new View(model, el, rows);
      return () => view.end();
    },
  };
};
