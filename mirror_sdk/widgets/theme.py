"""How widgets look: one style sheet in the colours of the page, light or dark.

It uses JupyterLab's variables (Notebook 7 has the same), then those of VS Code, then the system's colours. Colours only
underline what a sign or a word says. What must not jump has a size of its own.
"""

from __future__ import annotations

CSS = """
.mirror-widget {
  --mirror-text: var(--jp-ui-font-color1, var(--vscode-editor-foreground, CanvasText));
  --mirror-dim: var(--jp-ui-font-color2, var(--vscode-descriptionForeground, GrayText));
  --mirror-line: var(--jp-border-color2, var(--vscode-panel-border, rgba(128, 128, 128, 0.4)));
  --mirror-shade: var(--jp-layout-color2, var(--vscode-list-hoverBackground, rgba(128, 128, 128, 0.12)));
  --mirror-bad: var(--jp-error-color1, var(--vscode-errorForeground, #d32f2f));
  --mirror-warn: var(--jp-warn-color1, var(--vscode-editorWarning-foreground, #b26a00));
  --mirror-note: var(--jp-info-color1, var(--vscode-editorInfo-foreground, #0277bd));
  --mirror-good: var(--jp-success-color1, var(--vscode-testing-iconPassed, #388e3c));
  --mirror-quiet: var(--jp-border-color1, rgba(128, 128, 128, 0.7));
  border: 1px solid var(--mirror-line);
  border-radius: 4px;
  color: var(--mirror-text);
  padding: 10px 12px;
}
.mirror-widget .mirror-widget { border: 0; border-top: 1px solid var(--mirror-line); border-radius: 0; }
.mirror-widget .widget-html, .mirror-widget .widget-html-content, .mirror-widget .jupyter-widget-html-content {
  color: var(--mirror-text); line-height: 1.4; font-size: 13px;
}
.mirror-widget .widget-html-content { width: 100%; align-self: auto; }
.mirror-widget .widget-html { height: auto; }
.mirror-widget .widget-checkbox label { display: flex; align-items: center; }
.mirror-title { font-size: 15px; font-weight: 600; overflow-wrap: anywhere; }
.mirror-dim { color: var(--mirror-dim); overflow-wrap: anywhere; }
.mirror-hidden {
  clip-path: inset(50%); height: 1px; overflow: hidden; position: absolute; white-space: nowrap; width: 1px;
}
.mirror-notices { border-left: 4px solid var(--mirror-bad); background: var(--mirror-shade); padding: 4px 8px; }
.mirror-notices p { margin: 2px 0; overflow-wrap: anywhere; }
.mirror-row {
  column-gap: 10px; display: grid; align-items: start; padding: 2px 0;
  grid-template-columns: minmax(7em, 2fr) minmax(6em, 1.5fr) minmax(8em, 1.3fr) minmax(6.6em, 0.8fr);
}
.mirror-row > * {
  font-variant-numeric: tabular-nums; line-height: 1.3; min-width: 0; overflow: hidden; text-overflow: ellipsis;
  white-space: pre;
}
.mirror-head { font-weight: 600; }
.mirror-lines > .widget-box, .mirror-line { border-bottom: 1px solid var(--mirror-line); }
.mirror-mark { border-left: 3px solid var(--mirror-quiet); padding-left: 6px; }
.mirror-bad { border-color: var(--mirror-bad); }
.mirror-warn { border-color: var(--mirror-warn); }
.mirror-note { border-color: var(--mirror-note); }
.mirror-good { border-color: var(--mirror-good); }
.mirror-table { border-collapse: collapse; table-layout: fixed; width: 100%; }
.mirror-widget .mirror-table th, .mirror-widget .mirror-table td {
  border-bottom: 1px solid var(--mirror-line); height: 22px; overflow: hidden; padding: 1px 6px; text-align: left;
  text-overflow: ellipsis; white-space: nowrap; color: var(--mirror-text); background: none;
}
.mirror-table caption { text-align: left; color: var(--mirror-dim); }
.mirror-plot { width: 100%; height: auto; display: block; max-width: 900px; }
.mirror-plot text { fill: var(--mirror-text); font-family: inherit; font-size: 11px; }
.mirror-plot .axis { stroke: var(--mirror-line); fill: none; }
.mirror-plot .line { fill: none; stroke-width: 1.6; vector-effect: non-scaling-stroke; }
.mirror-plot .dot { stroke: none; }
.mirror-legend { display: flex; flex-wrap: wrap; gap: 2px 16px; list-style: none; margin: 0; padding: 0; }
.mirror-legend li { display: flex; align-items: center; gap: 6px; overflow-wrap: anywhere; }
.mirror-bar { display: flex; height: 14px; border-radius: 3px; overflow: hidden; background: var(--mirror-shade); }
.mirror-bar span { min-width: 3px; background: var(--mirror-quiet); }
.mirror-bar .mirror-bad, .mirror-dot.mirror-bad { background: var(--mirror-bad); }
.mirror-bar .mirror-warn, .mirror-dot.mirror-warn { background: var(--mirror-warn); }
.mirror-bar .mirror-note, .mirror-dot.mirror-note { background: var(--mirror-note); }
.mirror-bar .mirror-good, .mirror-dot.mirror-good { background: var(--mirror-good); }
.mirror-dot { background: var(--mirror-quiet); border-radius: 50%; display: inline-block; height: 9px; width: 9px; }
.mirror-widget .widget-button.mirror-tile {
  border-left: 5px solid var(--mirror-quiet); height: auto; line-height: 1.3; margin: 0; padding: 6px 8px;
  text-align: left; white-space: pre-line; overflow: hidden; overflow-wrap: anywhere; width: auto; min-height: 44px;
}
.mirror-widget .widget-button.mirror-tile.mirror-bad { border-left-color: var(--mirror-bad); }
.mirror-widget .widget-button.mirror-tile.mirror-warn { border-left-color: var(--mirror-warn); }
.mirror-widget .widget-button.mirror-tile.mirror-note { border-left-color: var(--mirror-note); }
.mirror-widget .widget-button.mirror-tile.mirror-good { border-left-color: var(--mirror-good); }
.mirror-choices > .widget-button {
  height: auto; line-height: 1.3; margin: 0 0 2px; min-height: 24px; overflow: hidden; overflow-wrap: anywhere;
  padding: 2px 8px; text-align: left; white-space: pre-wrap;
}
.mirror-choices > .mirror-chosen {
  box-shadow: inset 3px 0 0 var(--jp-brand-color1, var(--mirror-note)); font-weight: 600;
}
.mirror-widget button:focus-visible, .mirror-widget select:focus-visible, .mirror-widget input:focus-visible {
  outline: 2px solid var(--jp-brand-color1, var(--vscode-focusBorder, Highlight)); outline-offset: 1px;
}
.mirror-widget select, .mirror-widget input, .mirror-widget label { color: var(--mirror-text); }
"""

LINES = ("#2b7fc4", "#d9720f", "#2e9b57", "#a765cf")
"""Colours of lines, to be told apart on light and on dark."""
