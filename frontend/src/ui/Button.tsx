import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { announce } from "./announce";
import { copyText } from "./copy";
import { Icon } from "./Icon";

interface ButtonProps {
  /** What it does; shown as tooltip and read aloud when the content is a glyph. */
  label: string;
  onClick: () => void;
  children: ComponentChildren;
  pressed?: boolean;
  disabled?: boolean;
  className?: string;
}

export function Button({ label, onClick, children, pressed, disabled, className = "" }: ButtonProps) {
  return (
    <button
      type="button"
      class={`button ${className}`}
      {...(isWorded(children) ? { "aria-description": label } : { "aria-label": label })}
      data-tip={label}
      aria-pressed={pressed}
      disabled={disabled}
      onClick={onClick}
    >
      {children}
    </button>
  );
}

/** Whether the content says something by itself: then it is the name, and the label only explains. */
function isWorded(children: ComponentChildren): boolean {
  if (Array.isArray(children)) return children.some(isWorded);
  return typeof children === "string" && /[a-z]/i.test(children);
}

/** Copies `text` (or what a function gives at that moment) and says so. */
export function CopyButton({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const copied = useSignal(false);
  const copy = async () => {
    copied.value = await copyText(typeof text === "string" ? text : text());
    announce(copied.value ? "Copied" : "The browser did not allow copying");
    setTimeout(() => {
      copied.value = false;
    }, 1500);
  };
  return (
    <Button label={label} className="copy" onClick={() => void copy()}>
      <Icon name={copied.value ? "check" : "copy"} />
    </Button>
  );
}
