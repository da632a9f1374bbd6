"""The style sheet of all widgets, in the colors of the page, light or dark.

Text, lines and shades have the colors of JupyterLab (Notebook 7 has the same), else of VS Code, else of the system. The
tones are our own: those of JupyterLab have too little contrast for text. Each has a contrast of 4.5:1 or more on the
page and on its shades, light and dark. A tone only supports a sign and a word, see
:mod:`mirror_sdk.widgets.models.status`. Parts that must not jump have a fixed size.
"""

from __future__ import annotations

_LIGHT = """
  --mirror-dim: #595959; --mirror-bad: #b3261e; --mirror-warn: #8a4b00; --mirror-note: #0b57b0; --mirror-good: #1b6b22;
  --mirror-quiet: #767676; --mirror-selected: #d3e5f8;
"""
_DARK = """
  --mirror-dim: #c4c4c4; --mirror-bad: #ffaba5; --mirror-warn: #ffbd66; --mirror-note: #9ecaff; --mirror-good: #8fd693;
  --mirror-quiet: #9e9e9e; --mirror-selected: #1f3a57;
"""

CSS = (
    f"""
.mirror-widget {{{_LIGHT}}}
[data-jp-theme-light="false"] .mirror-widget, .vscode-dark .mirror-widget {{{_DARK}}}
@media (prefers-color-scheme: dark) {{
  body:not([data-jp-theme-light], .vscode-light) .mirror-widget {{{_DARK}}}
}}
"""
    + """
.mirror-widget {
  --mirror-back: var(--jp-layout-color0, var(--vscode-editor-background, Canvas));
  --mirror-text: var(--jp-ui-font-color1, var(--vscode-editor-foreground, CanvasText));
  --mirror-accent: var(--jp-brand-color1, var(--vscode-focusBorder, Highlight));
  --mirror-line: var(--jp-border-color2, var(--vscode-panel-border, rgba(128, 128, 128, 0.4)));
  --mirror-shade: var(--jp-layout-color2, var(--vscode-list-hoverBackground, rgba(128, 128, 128, 0.12)));
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
.mirror-problem { overflow-wrap: anywhere; }
.mirror-signs summary { color: var(--mirror-dim); cursor: pointer; width: fit-content; }
.mirror-signs ul {
  display: grid; gap: 2px 16px; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); list-style: none;
  margin: 4px 0 0; padding: 0;
}
.mirror-widget .widget-button, .mirror-widget .widget-toggle-button { margin: 0; width: auto; }
.mirror-widget .widget-toggle-button.mirror-count { border-left: 4px solid currentColor; padding: 0 8px; }
.mirror-widget .mirror-count.mod-active {
  background: var(--mirror-shade); box-shadow: inset 0 -3px 0 var(--mirror-accent); font-weight: 600;
}
.mirror-widget .widget-button.mod-primary { background: #1565c0; color: #fff; font-weight: 600; }
.mirror-widget .progress-bar { background: var(--mirror-note); }
.mirror-widget .progress-bar-success { background: var(--mirror-good); }
.mirror-widget .progress-bar-warning { background: var(--mirror-warn); }
.mirror-widget .progress-bar-danger { background: var(--mirror-bad); }
.mirror-time-plot { overflow: hidden; width: 100%; }
.mirror-time-plot .main-svg text { fill: var(--mirror-text) !important; font-family: inherit !important; }
.mirror-time-plot .gridlayer path { stroke: var(--mirror-line) !important; }
.mirror-time-plot .hoverlayer .hovertext path {
  fill: var(--mirror-back, Canvas) !important; stroke: var(--mirror-text) !important;
}
.mirror-time-plot .modebar-btn path { fill: var(--mirror-dim) !important; }
.mirror-time-plot .modebar-btn:hover path, .mirror-time-plot .modebar-btn.active path {
  fill: var(--mirror-text) !important;
}
.mirror-time-plot .modebar-group { background: none !important; }
.mirror-room { container-type: inline-size; margin-top: 8px; }
.mirror-widget .mirror-sides { display: flex; flex-direction: column; gap: 8px 16px; width: 100%; }
@container (min-width: 520px) {
  .mirror-widget .mirror-sides { flex-direction: row; }
  .mirror-sides > * { flex: 3 1 0; min-width: 0; }
  .mirror-sides > :first-child { flex-grow: 2; }
  .mirror-widget .mirror-sides > .mirror-widget { border: 0; padding: 0; }
}
.mirror-widget :is(button, select, input, summary):focus-visible {
  outline: 2px solid var(--mirror-accent); outline-offset: 1px;
}
.mirror-widget .mirror-tone-bad { color: var(--mirror-bad); }
.mirror-widget .mirror-tone-warn { color: var(--mirror-warn); }
.mirror-widget .mirror-tone-note { color: var(--mirror-note); }
.mirror-widget .mirror-tone-good { color: var(--mirror-good); }
.mirror-widget .mirror-tone-dim { color: var(--mirror-dim); }
.mirror-figures { font-variant-numeric: tabular-nums; }
.mirror-grid { width: 100%; }
.mirror-grid-bar { align-items: center; display: flex; flex-wrap: wrap; gap: 4px 10px; margin: 4px 0; }
.mirror-grid-bar input, .mirror-grid-bar button {
  background: var(--mirror-back); border: 1px solid var(--mirror-quiet); border-radius: 3px; color: var(--mirror-text);
  font: inherit; font-size: 13px; padding: 3px 8px;
}
.mirror-grid-bar input { flex: 0 1 240px; min-width: 120px; }
.mirror-grid-count { font-size: 13px; }
.mirror-widget select, .mirror-widget input, .mirror-widget label { color: var(--mirror-text); }
"""
)

LINES = ("#2b7fc4", "#d9720f", "#2e9b57", "#a765cf", "#c4527a", "#0e8f8f")
"""Colors of lines that are distinguishable on light and on dark pages."""
