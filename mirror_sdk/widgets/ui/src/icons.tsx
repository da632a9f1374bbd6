/* Icons of buttons, drawn in the color of the text. Each is 16 by 16. */

const PATHS = {
  close: "M4 4l8 8M12 4l-8 8",
  download: "M8 2v8M4.5 6.5L8 10l3.5-3.5M3 13h10",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3l8 5-8 5z",
  record: "M8 4.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7z",
  stop: "M4.5 4.5h7v7h-7z",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5l3 3",
  columns: "M3 3h10v10H3zM6.33 3v10M9.67 3v10",
  copy: "M5.5 5.5V3h7.5v7.5h-2.5M3 5.5h7.5V13H3z",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2 1.5",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  left: "M10 4L6 8l4 4",
  zoomOut: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5l3 3M5 7h4",
  filter: "M2.5 3.5h11L9.5 8.5V13L6.5 11.5v-3z",
  undo: "M5.5 3L2.5 6l3 3M2.5 6H10a3 3 0 0 1 0 6H6",
  warning: "M8 2.5l6 11H2zM8 6.5v3M8 11.7h.01",
  refresh: "M13 4v3h-3M3 12V9h3M12.5 7A5 5 0 0 0 4 5M3.5 9A5 5 0 0 0 12 11",
  save: "M3 3h8l2 2v8H3zM5.5 3v3.5h4.5V3M5 13V9.5h6V13",
  clear: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.5 8.5h6l.5-8.5",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, isFilled = false }: { name: IconName; isFilled?: boolean }) {
  return (
    <svg class="mirror-icon" viewBox="0 0 16 16" aria-hidden="true" data-filled={isFilled || undefined}>
      <path d={PATHS[name]} />
    </svg>
  );
}
