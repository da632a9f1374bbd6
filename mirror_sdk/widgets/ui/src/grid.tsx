/* A table with sorting, filters, search, groups, copying and selection: AG Grid on a `RowSource`. */

import {
  CellApiModule,
  CellStyleModule,
  ClientSideRowModelApiModule,
  ClientSideRowModelModule,
  ColumnApiModule,
  ColumnAutoSizeModule,
  EventApiModule,
  ExternalFilterModule,
  ModuleRegistry,
  NumberFilterModule,
  QuickFilterModule,
  RenderApiModule,
  RowApiModule,
  RowSelectionModule,
  RowStyleModule,
  ScrollApiModule,
  TextFilterModule,
  TooltipModule,
  createGrid,
  themeQuartz,
  type ColDef,
  type GridApi,
  type GridOptions,
  type ICellRendererParams,
  type IRowNode,
} from "ag-grid-community";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import type { Row, RowChange, RowSource } from "./bridge";
import { Button } from "./controls";
import { MISSING, ago, count, instant, instantIn, number, zoneName } from "./format";
import { Menu } from "./menu";
import { sparkline, type SparklineData } from "./sparkline";
import { statusOf } from "./status";
import { adopt } from "./styles";
import { TONES, isShown } from "./tones";

/** How the cells of a column are shown, aligned, sorted and filtered.

    "text": a text. "number": right-aligned; the row has a number. "value": right-aligned text of a value with its unit.
    "time": an instant; the row has milliseconds since 1970. "age": the same as "3 min ago", with the instant on hover.
    "status": a status with its sign and color; the row has its word ("In sync"). "count": a number that is shown only
    if it is not 0, in the tone of the cell. "sparkline": the row has `{ at: number[], values: number[] }`. */
export type ColumnKind = "text" | "number" | "value" | "time" | "age" | "status" | "count" | "sparkline";

export interface GridColumn {
  /** The name of its cells in the rows. */
  readonly name: string;
  readonly heading: string;
  readonly kind?: ColumnKind;
  /** The width in pixels that its content needs; columns share the remaining space in proportion to these widths. */
  readonly width?: number;
  /** The width to which it may shrink if no column with a rank is left: by default `width`, but at most 120. */
  readonly least?: number;
  /** A table that is too narrow hides the columns with the highest rank first. Those without a rank always stay. */
  readonly rank?: number;
  /** Whether it keeps its width. */
  readonly fixed?: boolean;
  readonly sort?: "asc" | "desc";
  /** Whether it is hidden until the user chooses it in the column picker. */
  readonly hidden?: boolean;
  /** Whether it stays at the left while the others scroll; otherwise it is as wide as there is space. */
  readonly pinned?: boolean;
  /** The tooltip of the heading. */
  readonly hint?: string;
  /** Whether most of its cells are empty, so that these show nothing instead of a dash. */
  readonly isSparse?: boolean;
}

/** The columns that the user sees, in their order, and the column by which the rows are sorted. */
export interface GridLayout {
  readonly columns: string[];
  readonly sort: { readonly name: string; readonly isDescending: boolean } | null;
}

export interface GridProps {
  /** The title, for screen readers: "Devices". */
  readonly label: string;
  readonly columns: readonly GridColumn[];
  readonly rows: RowSource;
  readonly selection?: "none" | "one" | "many";
  /** Whether a click on a row selects it, which is the default; otherwise only its checkbox and the space bar do. */
  readonly clickSelects?: boolean;
  /** The keys of the selected rows. */
  readonly selected?: readonly string[];
  onSelect?(keys: string[]): void;
  /** The user moved the focus to a cell. */
  onActive?(key: string, column: string): void;
  /** The user pressed Enter or clicked twice on a row. */
  onOpen?(key: string): void;
  /** The user clicked a row, whether it was selected before or not. */
  onPress?(key: string): void;
  /** The search text; without it the table keeps its own. */
  readonly search?: string;
  onSearch?(text: string): void;
  /** The column by whose texts the rows are grouped; empty for no groups. */
  readonly group?: string;
  /** Whether a row is shown, besides the search and the filters. A new function filters again. */
  readonly shows?: (row: Row) => boolean;
  /** Shown while there are no rows. */
  readonly empty?: ComponentChildren;
  /** Controls before the search field. */
  readonly tools?: ComponentChildren;
  /** Whether there is no bar with the search field, the count, the copy button and the column picker. */
  readonly bare?: boolean;
  /** The height as CSS, such as "320px". By default the table is as high as its rows, at most `maxHeight`. */
  readonly height?: string;
  readonly maxHeight?: number;
  /** The time zone of instants; see `format.ts`. */
  readonly zone?: string;
  /** How far the clock of the instants is ahead of the clock here, in milliseconds; ages refer to that clock. */
  readonly clockAhead?: number;
  /** The user showed, hid, moved or sorted columns. Later `columns` decide again. */
  onLayout?(layout: GridLayout): void;
}

ModuleRegistry.registerModules([
  CellApiModule,
  CellStyleModule,
  ClientSideRowModelApiModule,
  ClientSideRowModelModule,
  ColumnApiModule,
  ColumnAutoSizeModule,
  EventApiModule,
  ExternalFilterModule,
  NumberFilterModule,
  QuickFilterModule,
  RenderApiModule,
  RowApiModule,
  RowSelectionModule,
  RowStyleModule,
  ScrollApiModule,
  TextFilterModule,
  TooltipModule,
]);

const ROW_HEIGHT = 30;
const HEADER_HEIGHT = 32;
/* Above and below the table, below its heading, and one for the rounding of a zoomed page. */
const BORDERS = 4;
const MOST_HEIGHT = 360;
const SCROLLBAR = ".ag-body-horizontal-scroll";
const BOXES = "ag-Grid-SelectionColumn";
const BOXES_WIDTH = 36;
/* The space of the vertical scrollbar, whether there is one or not. */
const SCROLLBAR_WIDTH = 15;
const AGES_RENEWED_MS = 10_000;
/* Smaller changes of the clock wait until the ages are renewed. */
const CLOCK_JUMP_MS = 1_000;
/* The changes of the user, not those of the program. */
const LAYOUT_SOURCES: ReadonlySet<string> = new Set(["uiColumnMoved", "uiColumnSorted", "uiColumnDragged", "columnMenu", "contextMenu", "picker"]);
/* How long the selection of the user stays before it has come back. */
const SELECTION_AWAITED_MS = 10_000;
const COLLATOR = new Intl.Collator("en", { numeric: true });

const THEME = themeQuartz.withParams({
  accentColor: "var(--mirror-accent)",
  backgroundColor: "var(--mirror-back)",
  borderColor: "var(--mirror-line)",
  browserColorScheme: "inherit",
  cellHorizontalPadding: 8,
  columnBorder: false,
  fontFamily: "inherit",
  fontSize: 13,
  foregroundColor: "var(--mirror-text)",
  headerBackgroundColor: "var(--mirror-back)",
  headerColumnBorder: false,
  headerFontSize: 12,
  headerFontWeight: 500,
  headerHeight: HEADER_HEIGHT,
  headerTextColor: "var(--mirror-dim)",
  rowHeight: ROW_HEIGHT,
  rowHoverColor: "var(--mirror-surface)",
  selectedRowBackgroundColor: "var(--mirror-selected)",
  spacing: 5,
  pinnedColumnBorder: false,
  wrapperBorder: false,
  wrapperBorderRadius: 0,
});

/* AG Grid puts style elements into this container, which is in no document: the page's policy allows none. The sheets are
   adopted instead. The first grid only makes AG Grid insert them, so that later ones are measured with them. */
let styleContainer: HTMLElement | undefined;

function containerOfStyles(): HTMLElement {
  if (styleContainer === undefined) {
    styleContainer = document.createElement("div");
    createGrid(document.createElement("div"), { theme: THEME, themeStyleContainer: styleContainer, columnDefs: [], rowData: [] });
    for (const style of styleContainer.querySelectorAll("style")) adopt(style.textContent ?? "");
  }
  return styleContainer;
}

function textOfKeys(keys: readonly string[]): string {
  return JSON.stringify([...keys].sort());
}

/* Rows without a value are last, whichever way the column is sorted. */
function compare(one: unknown, other: unknown, _node: unknown, _other: unknown, isDescending: boolean): number {
  if (!isShown(one) || !isShown(other)) {
    return (Number(isShown(other)) - Number(isShown(one))) * (isDescending ? -1 : 1);
  }
  if (typeof one === "number" && typeof other === "number") return one - other;
  return COLLATOR.compare(String(one), String(other));
}

const NUMERIC: ReadonlySet<ColumnKind> = new Set(["number", "count"]);
const TIMES: ReadonlySet<ColumnKind> = new Set(["time", "age"]);

/** The displayed text of a cell. */
function textOf(value: unknown, { kind = "text" }: GridColumn, zone: string, ahead = 0): string {
  if (!isShown(value) || kind === "sparkline") return "";
  if (kind === "count" && value === 0) return "";
  if (typeof value === "number") {
    if (kind === "time") return instant(value, zone);
    if (kind === "age") return ago(value, Date.now() + ahead);
    return number(value);
  }
  return String(value);
}

/** The text of a cell for a spreadsheet, which gets complete instants. */
function textToCopy(value: unknown, column: GridColumn, zone: string): unknown {
  if (typeof value === "number" && TIMES.has(column.kind ?? "text")) return instant(value, zone, true);
  if (column.kind === "sparkline") return "";
  return value;
}

function comfortableWidth({ width = 120, fixed }: GridColumn): number {
  return fixed ? width : Math.min(width, 120);
}

function definitionOf(column: GridColumn, zone: () => string, ahead: () => number): ColDef<Row> {
  const { name, heading, kind = "text", width, fixed, sort, hidden, hint, isSparse } = column;
  const isRight = NUMERIC.has(kind) || kind === "value";
  const tones = TONES.map((tone) => [`mirror-tone-${tone}`, (cell: { data?: Row }) => cell.data?.tones?.[name] === tone] as const);
  const definition: ColDef<Row> = {
    colId: name,
    headerName: heading,
    headerTooltip: hint ?? heading,
    valueGetter: ({ data }) => data?.[name],
    valueFormatter: ({ value }) => textOf(value, column, zone(), ahead()) || (isSparse || kind === "count" || kind === "sparkline" ? "" : MISSING),
    comparator: compare,
    sort: sort ?? null,
    hide: hidden ?? false,
    filter: NUMERIC.has(kind) ? "agNumberColumnFilter" : "agTextColumnFilter",
    filterValueGetter: ({ data }) => (NUMERIC.has(kind) ? data?.[name] : textOf(data?.[name], column, zone(), ahead())),
    getQuickFilterText: ({ value }) => textOf(value, column, zone(), ahead()),
    tooltipValueGetter: ({ data, value }) => {
      if (data?.hints?.[name]) return data.hints[name];
      if (typeof value === "number" && TIMES.has(kind)) return instantIn(value, zone());
      return kind === "status" ? statusOf(value)?.meaning : textOf(value, column, zone(), ahead());
    },
    cellClass: isRight || TIMES.has(kind) ? `mirror-figures${isRight ? " ag-right-aligned-cell" : ""}` : "",
    headerClass: isRight ? "ag-right-aligned-header" : "",
    cellClassRules: Object.fromEntries(tones),
    ...(fixed && width ? { width } : { flex: width ?? 120 }),
    minWidth: column.least ?? comfortableWidth(column),
  };
  if (kind === "status") definition.cellRenderer = statusCell;
  if (kind === "sparkline") {
    definition.cellRenderer = ({ value }: ICellRendererParams<Row>) => sparkline(value as SparklineData | null);
    definition.sortable = false;
    definition.filter = false;
    // A sparkline is an object, which is replaced at each change.
    definition.equals = (one, other) => one === other;
  }
  return definition;
}

/* Cells are set by text, never as HTML, because a text may come from a device. */
function statusCell({ value }: ICellRendererParams<Row>): HTMLElement {
  const status = statusOf(value);
  const cell = document.createElement("span");
  if (status === undefined) {
    cell.textContent = isShown(value) ? String(value) : "";
    return cell;
  }
  const sign = document.createElement("span");
  sign.className = "mirror-status-sign";
  sign.setAttribute("aria-hidden", "true");
  sign.textContent = status.sign;
  cell.className = `mirror-status mirror-status-${status.color}`;
  cell.append(sign, ` ${status.word}`);
  return cell;
}

/* The heading of a group is a separate row that spans all columns. */
interface Group extends Row {
  readonly isGroup: true;
  readonly text: string;
}

const isGroup = (row: Row | undefined): row is Group => row?.isGroup === true && row.key.startsWith("\u0000");

class GridView {
  readonly api: GridApi<Row>;
  props: GridProps;
  readonly #rows: RowSource;
  readonly #folded = new Set<string>();
  readonly #shownInGroup = new Map<string, number>();
  readonly #endListening: () => void;
  readonly #timer: ReturnType<typeof setInterval>;
  #known = new Set<string>();
  /* The layouts that were reported and have not come back as `columns`. */
  #reported: string[] = [];
  /* The selection that is known here. Another one is a change of the user that AG Grid has not reported yet. */
  #selection = "[]";
  /* The selection of the user that has not come back as `selected`; null if there is none. */
  #awaited: string | null = null;
  #patience: ReturnType<typeof setTimeout> | undefined;
  /* The columns that are hidden because the table is too narrow, and those that the user wanted to see nevertheless. */
  #dropped: ReadonlySet<string> = new Set();
  readonly #picked = new Set<string>();

  constructor(private readonly box: HTMLElement, props: GridProps, private readonly changed: () => void) {
    this.props = props;
    this.#rows = props.rows;
    this.api = createGrid(box, this.options());
    this.api.setGridAriaProperty("label", props.label);
    this.#known = new Set(this.#rows.all.map(({ key }) => key));
    this.#endListening = this.#rows.listen((change) => this.show(change));
    this.#timer = setInterval(() => this.renewAges(), AGES_RENEWED_MS);
    this.fit();
    this.select();
  }

  close(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#patience);
    this.#endListening();
    this.api.destroy();
  }

  get zone(): string {
    return this.props.zone ?? "";
  }

  options(): GridOptions<Row> {
    const { selection = "none", columns, clickSelects = true } = this.props;
    const isMany = selection === "many";
    return {
      theme: THEME,
      themeStyleContainer: containerOfStyles(),
      columnDefs: columns.map((column) => definitionOf(column, () => this.zone, () => this.props.clockAhead ?? 0)),
      // Without inferring types, which would take rows only after a while: each column has a kind.
      defaultColDef: { resizable: true, sortable: true, suppressHeaderMenuButton: false, cellDataType: false },
      rowData: this.withGroups(),
      getRowId: ({ data }) => data.key,
      ...(selection === "none"
        ? {}
        : {
            rowSelection: {
              mode: isMany ? "multiRow" : "singleRow",
              checkboxes: isMany,
              ...(isMany ? { headerCheckbox: true, selectAll: "filtered", enableSelectionWithoutKeys: true } : {}),
              enableClickSelection: clickSelects,
              isRowSelectable: ({ data }: IRowNode<Row>) => !isGroup(data),
            } as GridOptions<Row>["rowSelection"],
            selectionColumnDef: { pinned: "left", width: BOXES_WIDTH, minWidth: BOXES_WIDTH, resizable: false },
          }),
      quickFilterText: this.props.search ?? "",
      alwaysPassFilter: ({ data }) => isGroup(data),
      isExternalFilterPresent: () => this.#folded.size > 0 || this.props.shows !== undefined,
      doesExternalFilterPass: ({ data }) => data !== undefined && (this.props.shows?.(data) ?? true),
      postSortRows: ({ nodes }) => this.arrange(nodes),
      isFullWidthRow: ({ rowNode }) => isGroup(rowNode.data),
      fullWidthCellRenderer: (cell: ICellRendererParams<Row>) => this.groupCell(cell.data as Group),
      tooltipShowDelay: 400,
      tooltipShowMode: "standard",
      maintainColumnOrder: true,
      animateRows: false,
      suppressCellFocus: false,
      suppressNoRowsOverlay: true,
      suppressDragLeaveHidesColumns: true,
      // Otherwise keys go to the page while rows change below the focus.
      suppressScrollOnNewData: true,
      onModelUpdated: () => this.changed(),
      onFilterChanged: () => this.renewGroups(),
      onColumnVisible: (event) => this.layoutChanged(event),
      onColumnMoved: (event) => this.layoutChanged(event),
      onSortChanged: (event) => this.layoutChanged(event),
      onSelectionChanged: ({ source }) => this.selectionChanged(source),
      onCellFocused: ({ rowIndex, column }) => {
        const node = rowIndex === null ? undefined : this.api.getDisplayedRowAtIndex(rowIndex);
        if (node?.data && !isGroup(node.data) && column && typeof column !== "string") {
          this.props.onActive?.(node.data.key, column.getColId());
        }
      },
      onRowClicked: ({ data }) => {
        if (data && !isGroup(data)) this.props.onPress?.(data.key);
      },
      onRowDoubleClicked: ({ data }) => {
        if (data && !isGroup(data)) this.props.onOpen?.(data.key);
      },
      onCellKeyDown: ({ data, event }) => {
        if (data && !isGroup(data) && (event as KeyboardEvent).key === "Enter") this.props.onOpen?.(data.key);
      },
    };
  }

  groupOf(row: Row): string {
    const { group } = this.props;
    const column = this.props.columns.find(({ name }) => name === group);
    const value = group ? row[group] : "";
    return (column ? textOf(value, column, this.zone) : isShown(value) ? String(value) : "") || MISSING;
  }

  withGroups(): Row[] {
    const all = this.#rows.all;
    return this.props.group ? [...this.groupRows(all), ...all] : [...all];
  }

  groupRows(rows: readonly Row[]): Group[] {
    const texts = [...new Set(rows.map((row) => this.groupOf(row)))];
    return texts.map((text) => ({ key: `\u0000${text}`, isGroup: true, text }));
  }

  /* Put the rows of each group below its heading. Folded rows and headings without rows are left out. */
  arrange(nodes: IRowNode<Row>[]): void {
    this.#shownInGroup.clear();
    if (!this.props.group) return;
    const heads = new Map<string, IRowNode<Row>>();
    const members = new Map<string, IRowNode<Row>[]>();
    for (const node of nodes) {
      if (isGroup(node.data)) heads.set(node.data.text, node);
      else if (node.data) {
        const text = this.groupOf(node.data);
        const list = members.get(text);
        if (list) list.push(node);
        else members.set(text, [node]);
      }
    }
    nodes.length = 0;
    for (const text of [...members.keys()].sort(COLLATOR.compare)) {
      const head = heads.get(text);
      const list = members.get(text) ?? [];
      this.#shownInGroup.set(text, list.length);
      if (head) nodes.push(head);
      if (!head || !this.#folded.has(text)) nodes.push(...list);
    }
  }

  groupCell(group: Group): HTMLElement {
    const button = document.createElement("button");
    const isFolded = this.#folded.has(group.text);
    button.type = "button";
    button.className = "mirror-group";
    button.setAttribute("aria-expanded", String(!isFolded));
    const sign = document.createElement("span");
    sign.textContent = isFolded ? "▸" : "▾";
    sign.setAttribute("aria-hidden", "true");
    const size = document.createElement("span");
    size.className = "mirror-dim";
    size.textContent = (this.#shownInGroup.get(group.text) ?? 0).toLocaleString("en");
    button.append(sign, ` ${group.text} `, size);
    button.addEventListener("click", () => {
      if (isFolded) this.#folded.delete(group.text);
      else this.#folded.add(group.text);
      this.api.refreshClientSideRowModel("sort");
      this.renewGroups();
    });
    // A screen reader also requires a cell in each row.
    const cell = document.createElement("div");
    cell.setAttribute("role", "gridcell");
    cell.style.display = "contents";
    cell.append(button);
    return cell;
  }

  renewGroups(): void {
    const heads: IRowNode<Row>[] = [];
    this.api.forEachNode((node) => isGroup(node.data) && heads.push(node));
    if (heads.length) this.api.redrawRows({ rowNodes: heads });
  }

  show({ rows, gone, all }: RowChange): void {
    const isTouched = this.isTouched();
    const known = this.#known;
    this.#known = new Set(this.#rows.all.map(({ key }) => key));
    if (all || this.props.group) {
      this.api.setGridOption("rowData", this.withGroups());
      if (this.props.group) this.renewGroups();
    } else {
      this.api.applyTransaction({
        add: rows.filter(({ key }) => !known.has(key)),
        update: rows.filter(({ key }) => known.has(key)),
        remove: gone.filter((key) => known.has(key)).map((key) => ({ key })),
      });
    }
    if (isTouched) return;
    this.#selection = textOfKeys(this.selectedKeys());
    this.select();
  }

  selectedKeys(): string[] {
    return this.api.getSelectedNodes().map(({ id }) => id ?? "");
  }

  /* Whether the user has changed the selection, and AG Grid reports it in a moment. */
  isTouched(): boolean {
    return textOfKeys(this.selectedKeys()) !== this.#selection;
  }

  renewAges(): void {
    const ages = this.props.columns.filter(({ kind }) => kind === "age").map(({ name }) => name);
    if (ages.length) this.api.refreshCells({ columns: ages, force: true });
  }

  /** Select the rows of `props.selected`, unless these are older than what the user has selected. */
  select(): void {
    if ((this.props.selection ?? "none") === "none" || !this.props.selected) return;
    if (this.isTouched() || (this.#awaited !== null && this.#awaited !== textOfKeys(this.props.selected))) return;
    this.#awaited = null;
    const wanted = new Set(this.props.selected);
    const on: IRowNode<Row>[] = [];
    const off: IRowNode<Row>[] = [];
    this.api.forEachNode((node) => {
      if (wanted.has(node.id ?? "") !== Boolean(node.isSelected())) (node.isSelected() ? off : on).push(node);
    });
    if (off.length) this.api.setNodesSelected({ nodes: off, newValue: false });
    if (on.length) this.api.setNodesSelected({ nodes: on, newValue: true });
    this.#selection = textOfKeys(this.selectedKeys());
    this.changed();
  }

  selectionChanged(source: string): void {
    if (source.startsWith("api") || source === "rowDataChanged") return;
    const keys = this.selectedKeys();
    this.#selection = this.#awaited = textOfKeys(keys);
    clearTimeout(this.#patience);
    this.#patience = setTimeout(() => {
      // It was rejected, or changed.
      this.#awaited = null;
      this.select();
    }, SELECTION_AWAITED_MS);
    this.props.onSelect?.(keys);
    this.changed();
  }

  /** Hide the columns with the highest ranks until the others fit. Only if they still scroll, the pinned ones are pinned. */
  fit(): void {
    const width = this.box.clientWidth;
    if (!width) return;
    const columns = this.props.columns.filter(({ name }) => this.#dropped.has(name) || this.api.getColumn(name)?.isVisible());
    const room = width - SCROLLBAR_WIDTH - (this.props.selection === "many" ? BOXES_WIDTH : 0);
    const total = (parts: readonly GridColumn[], widthOf: (column: GridColumn) => number) => parts.reduce((sum, one) => sum + widthOf(one), 0);
    const rankOf = ({ name, rank = 0 }: GridColumn) => (this.#picked.has(name) ? 0 : rank);
    let kept = columns;
    while (total(kept, comfortableWidth) > room && kept.some(rankOf)) {
      const highest = Math.max(...kept.map(rankOf));
      kept = kept.filter((column) => rankOf(column) < highest);
    }
    const isTooWide = total(kept, (column) => column.least ?? comfortableWidth(column)) > room;
    this.#dropped = new Set(columns.filter((column) => !kept.includes(column)).map(({ name }) => name));
    const state = columns.map(({ name, pinned }) => ({ colId: name, hide: this.#dropped.has(name), pinned: pinned && isTooWide ? ("left" as const) : null }));
    this.api.applyColumnState({ state });
  }

  setVisible(name: string, isVisible: boolean): void {
    if (isVisible) this.#picked.add(name);
    else this.#picked.delete(name);
    this.api.setColumnsVisible([name], isVisible);
    this.fit();
    this.layoutChanged({ source: "picker" });
  }

  layoutChanged({ source, finished = true }: { source: string; finished?: boolean }): void {
    this.changed();
    // Dragging a column moves it many times.
    if (!finished || !this.props.onLayout || !LAYOUT_SOURCES.has(source)) return;
    const columns = this.api.getAllGridColumns().filter((column) => column.isVisible() || this.#dropped.has(column.getColId())).map((column) => column.getColId());
    const sorted = this.api.getColumnState().find(({ sort }) => sort);
    const layout = {
      columns: columns.filter((name) => !name.startsWith("ag-Grid")),
      sort: sorted ? { name: sorted.colId, isDescending: sorted.sort === "desc" } : null,
    };
    this.#reported.push(JSON.stringify(layout));
    this.props.onLayout(layout);
  }

  /* Whether these columns are a layout of the user that a later one has replaced. From a slow kernel it comes back late, and
     would undo the later one for a moment. */
  isOutdated(columns: readonly GridColumn[]): boolean {
    const sorted = columns.find(({ sort }) => sort);
    const layout = {
      columns: columns.filter(({ hidden }) => !hidden).map(({ name }) => name),
      sort: sorted ? { name: sorted.name, isDescending: sorted.sort === "desc" } : null,
    };
    const place = this.#reported.indexOf(JSON.stringify(layout));
    this.#reported = place < 0 ? [] : this.#reported.slice(place + 1);
    return this.#reported.length > 0;
  }

  update(props: GridProps): void {
    const before = this.props;
    this.props = props;
    if (JSON.stringify(before.columns) !== JSON.stringify(props.columns) && !this.isOutdated(props.columns)) {
      this.api.setGridOption("columnDefs", props.columns.map((column) => definitionOf(column, () => this.zone, () => this.props.clockAhead ?? 0)));
      const boxes = props.selection === "many" ? [{ colId: BOXES }] : [];
      const state = [...boxes, ...props.columns.map(({ name, hidden, sort }) => ({ colId: name, hide: hidden ?? false, sort: sort ?? null }))];
      this.api.applyColumnState({ state, applyOrder: true });
      this.#dropped = new Set();
      this.fit();
    }
    if (before.group !== props.group) {
      this.#folded.clear();
      this.api.setGridOption("rowData", this.withGroups());
      this.renewGroups();
    }
    if (before.zone !== props.zone) this.api.refreshCells({ force: true });
    else if (Math.abs((before.clockAhead ?? 0) - (props.clockAhead ?? 0)) > CLOCK_JUMP_MS) this.renewAges();
    if (before.shows !== props.shows) this.api.onFilterChanged();
    if (before.selected !== props.selected) this.select();
  }

  get counts(): { shown: number; all: number; selected: number } {
    let shown = 0;
    if (this.props.group) for (const size of this.#shownInGroup.values()) shown += size;
    else shown = this.api?.getDisplayedRowCount() ?? 0;
    const selected = this.props.selected ? this.props.selected.length : (this.api?.getSelectedNodes().length ?? 0);
    return { shown, all: this.#rows.size, selected };
  }

  copy(event: ClipboardEvent): void {
    // A selected text in a field is copied as usual.
    if (event.target instanceof HTMLInputElement) return;
    const chosen = this.chosen();
    const focused = this.api.getFocusedCell();
    const node = focused ? this.api.getDisplayedRowAtIndex(focused.rowIndex) : undefined;
    if (!chosen.length && !node?.data) return;
    const name = focused?.column.getColId() ?? "";
    event.clipboardData?.setData("text/plain", chosen.length ? this.lines(chosen) : this.copied(node?.data as Row, name));
    event.preventDefault();
  }

  /** Copy the selected rows, or all that are shown. Returns how many. */
  copyRows(): number {
    const chosen = this.chosen();
    const nodes = chosen.length ? chosen : this.inOrder();
    const write = (event: ClipboardEvent) => {
      event.clipboardData?.setData("text/plain", this.lines(nodes));
      event.preventDefault();
      event.stopImmediatePropagation();
    };
    // Unlike navigator.clipboard, this works on pages without TLS too.
    document.addEventListener("copy", write, { capture: true, once: true });
    document.execCommand("copy");
    document.removeEventListener("copy", write, { capture: true });
    return nodes.length;
  }

  private inOrder(): IRowNode<Row>[] {
    const nodes: IRowNode<Row>[] = [];
    this.api.forEachNodeAfterFilterAndSort((node) => {
      if (node.data && !isGroup(node.data)) nodes.push(node);
    });
    return nodes;
  }

  private chosen(): IRowNode<Row>[] {
    return this.inOrder().filter((node) => node.isSelected());
  }

  private copied(row: Row, name: string): string {
    const column = this.props.columns.find((one) => one.name === name) ?? { name, heading: name };
    return field(textToCopy(row[name], column, this.zone));
  }

  private lines(nodes: readonly IRowNode<Row>[]): string {
    const shown = this.api.getAllDisplayedColumns().filter((column) => !column.getColId().startsWith("ag-Grid"));
    const zone = zoneName(this.zone);
    const head = shown.map((column) => {
      const ours = this.props.columns.find(({ name }) => name === column.getColId());
      const heading = column.getColDef().headerName ?? "";
      return field(TIMES.has(ours?.kind ?? "text") && !heading.includes("(") ? `${heading} (${zone})` : heading);
    });
    const body = nodes.map(({ data }) => shown.map((column) => this.copied(data as Row, column.getColId())).join("\t"));
    return [head.join("\t"), ...body].join("\n");
  }
}

const FORMULA = /^'*(?:[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]|\{=)/;
/* A number with its unit, which no spreadsheet interprets as a formula. */
const QUANTITY = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?: [^=+\-@|!(){}]*)?$/i;

/** A cell of a spreadsheet: one line, and never a formula, even if the name of a device looks like one. */
export function field(value: unknown): string {
  if (!isShown(value)) return "";
  if (typeof value !== "string") return String(value);
  const line = value.replace(/[\t\r\n]+/g, " ");
  if (FORMULA.test(value) && !QUANTITY.test(value)) return `'${line}`;
  // A quote at the beginning would combine everything up to the next one in one cell, across tabs and lines.
  return line.startsWith('"') ? `"${line.replaceAll('"', '""')}"` : line;
}

/* The height of the scrollbar below the rows: 0 if all columns fit, or if it overlays the cells, as on phones. */
function scrollbarHeight(box: HTMLElement | null): number {
  const bar = box?.querySelector<HTMLElement>(SCROLLBAR);
  return bar && !bar.classList.contains("ag-scrollbar-invisible") ? bar.offsetHeight : 0;
}

export function Grid(props: GridProps) {
  const { label, columns, rows, empty, tools, bare = false, height, maxHeight = MOST_HEIGHT } = props;
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<GridView | null>(null);
  const [, renew] = useState(0);
  const [ownSearch, setOwnSearch] = useState("");
  const [copied, setCopied] = useState(0);
  const search = props.search ?? ownSearch;

  useEffect(() => {
    if (!box.current) return undefined;
    let isAsked = false;
    const changed = () => {
      if (isAsked) return;
      isAsked = true;
      queueMicrotask(() => {
        isAsked = false;
        renew((times) => times + 1);
      });
    };
    const made = new GridView(box.current, props, changed);
    view.current = made;
    const copy = (event: ClipboardEvent) => made.copy(event);
    box.current.addEventListener("copy", copy);
    const scrollbar = new ResizeObserver(changed);
    const bar = box.current.querySelector(SCROLLBAR);
    if (bar) scrollbar.observe(bar);
    const width = new ResizeObserver(() => made.fit());
    width.observe(box.current);
    renew((times) => times + 1);
    return () => {
      scrollbar.disconnect();
      width.disconnect();
      box.current?.removeEventListener("copy", copy);
      view.current = null;
      made.close();
    };
  }, [rows, props.selection]);

  useEffect(() => view.current?.update(props));
  useEffect(() => view.current?.api.setGridOption("quickFilterText", search), [search]);

  const counts = view.current?.counts ?? { shown: rows.size, all: rows.size, selected: 0 };
  const displayed = view.current?.api.getDisplayedRowCount() ?? rows.size;
  const size = HEADER_HEIGHT + BORDERS + Math.max(1, displayed) * ROW_HEIGHT + scrollbarHeight(box.current);
  const visible = (name: string) => view.current?.api.getColumn(name)?.isVisible() ?? true;
  const parts = counts.shown === counts.all ? [count(counts.all, "row")] : [`${counts.shown.toLocaleString("en")} of ${count(counts.all, "row")}`];
  if (counts.selected && props.selection === "many") parts.push(`${counts.selected.toLocaleString("en")} selected`);
  if (counts.all && !counts.shown) parts.push("no row matches the search and the filters");
  return (
    <section class="mirror-grid" aria-label={label}>
      {!bare && (
        <div class="mirror-bar">
          <input
            class="mirror-input mirror-search"
            type="search"
            placeholder="Search"
            aria-label={`Search in ${label}`}
            value={search}
            onInput={({ currentTarget }) => (props.onSearch ?? setOwnSearch)(currentTarget.value)}
          />
          {tools}
          <span class="mirror-count">{copied ? `${count(copied, "row")} copied` : parts.join(" · ")}</span>
          <span class="mirror-bar-end">
            <Button
              label="Copy rows"
              hint="Copy the selected rows, or all that are shown, for a spreadsheet"
              icon="copy"
              isIcon
              onClick={() => {
                setCopied(view.current?.copyRows() ?? 0);
                setTimeout(() => setCopied(0), 3000);
              }}
            />
            <Menu
              label="Columns"
              hint="Choose the columns that are shown"
              icon="columns"
              isIcon
              items={columns.map(({ name, heading }) => ({
                label: heading,
                isChecked: visible(name),
                onClick: () => view.current?.setVisible(name, !visible(name)),
              }))}
            />
          </span>
        </div>
      )}
      {rows.size === 0 && empty}
      <div
        class="mirror-grid-box"
        ref={box}
        hidden={rows.size === 0 && empty !== undefined}
        style={{ height: height ?? `${Math.min(size, maxHeight)}px` }}
      />
    </section>
  );
}
