/* A button that opens a menu or a panel below it. Escape and a click elsewhere close it. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "./icons";

export interface MenuItem {
  readonly label: string;
  readonly hint?: string;
  readonly isChecked?: boolean;
  readonly isDisabled?: boolean;
  onClick(): void;
}

interface PopupProps {
  readonly label: string;
  readonly icon?: IconName;
  readonly isIcon?: boolean;
  readonly hint?: string;
  readonly isDisabled?: boolean;
  readonly role: "menu" | "dialog";
  children(close: () => void): ComponentChildren;
}

function Popup({ label, icon, isIcon, hint, isDisabled, role, children }: PopupProps) {
  const [isOpen, setOpen] = useState(false);
  const whole = useRef<HTMLDivElement>(null);
  const panel = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = () => {
    setOpen(false);
    button.current?.focus({ preventScroll: true });
  };
  useEffect(() => {
    if (!isOpen || !panel.current || !whole.current) return undefined;
    // Within the widget, which clips wider content.
    const outer = (whole.current.closest(".mirror-ui") ?? document.body).getBoundingClientRect();
    const room = panel.current.getBoundingClientRect();
    const shift = Math.min(0, outer.right - 2 - room.right);
    panel.current.style.marginInlineStart = `${Math.max(shift, outer.left - room.left)}px`;
    panel.current.querySelector<HTMLElement>("button:not(:disabled), input, select")?.focus({ preventScroll: true });
    const away = (event: Event) => {
      if (!event.composedPath().includes(whole.current as EventTarget)) setOpen(false);
    };
    document.addEventListener("pointerdown", away, true);
    document.addEventListener("focusin", away, true);
    return () => {
      document.removeEventListener("pointerdown", away, true);
      document.removeEventListener("focusin", away, true);
    };
  }, [isOpen]);
  const moveFocus = (event: KeyboardEvent) => {
    if (event.key === "Escape" && isOpen) {
      event.stopPropagation();
      close();
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || role !== "menu" || !panel.current) return;
    event.preventDefault();
    const items = [...panel.current.querySelectorAll<HTMLElement>("button:not(:disabled)")];
    const at = items.indexOf(document.activeElement as HTMLElement);
    items[(at + step + items.length) % items.length]?.focus();
  };
  return (
    <div class="mirror-popup" ref={whole} onKeyDown={moveFocus}>
      <button
        type="button"
        ref={button}
        class={`mirror-button ${isIcon ? "mirror-icon-button" : ""}`}
        aria-haspopup={role}
        aria-expanded={isOpen}
        aria-label={isIcon ? label : undefined}
        title={hint ?? (isIcon ? label : undefined)}
        disabled={isDisabled}
        onClick={() => setOpen(!isOpen)}
      >
        {icon && <Icon name={icon} />}
        {!isIcon && <span>{label}</span>}
        {!isIcon && <Icon name="down" />}
      </button>
      {isOpen && (
        <div class="mirror-panel" ref={panel} role={role} aria-label={label}>
          {children(close)}
        </div>
      )}
    </div>
  );
}

export interface MenuProps {
  readonly label: string;
  readonly items: readonly (MenuItem | null)[];
  readonly icon?: IconName;
  readonly isIcon?: boolean;
  readonly hint?: string;
  readonly isDisabled?: boolean;
}

/** A menu of actions. `null` separates groups. An item with `isChecked` is a choice, and the menu stays open. */
export function Menu({ items, ...rest }: MenuProps) {
  return (
    <Popup {...rest} role="menu">
      {(close) =>
        items.map((item, index) =>
          item === null ? (
            <hr key={index} />
          ) : (
            <button
              type="button"
              key={item.label}
              class="mirror-item"
              role={item.isChecked === undefined ? "menuitem" : "menuitemcheckbox"}
              aria-checked={item.isChecked}
              title={item.hint}
              disabled={item.isDisabled}
              onClick={() => {
                if (item.isChecked === undefined) close();
                item.onClick();
              }}
            >
              {item.isChecked !== undefined && <span class="mirror-item-mark">{item.isChecked ? "✓" : ""}</span>}
              <span>{item.label}</span>
            </button>
          ),
        )
      }
    </Popup>
  );
}

/** A button that opens a panel with any content. */
export function PanelButton(props: Omit<PopupProps, "role">) {
  return <Popup {...props} role="dialog" />;
}
