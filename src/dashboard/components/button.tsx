import type { ComponentChildren } from "preact";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { may } from "../state/session.ts";

export interface ButtonProps {
  readonly children: ComponentChildren;
  readonly onClick?: (event: MouseEvent) => void;
  readonly kind?: "primary" | "plain" | "danger" | "link";
  readonly isSmall?: boolean;
  readonly isBusy?: boolean;
  readonly isDisabled?: boolean;
  /** Why it is disabled, or what it does. */
  readonly title?: string;
  /** The scope that the action needs. Without it the button is disabled and says which one is missing. */
  readonly needs?: Scope;
  readonly type?: "button" | "submit";
  readonly label?: string;
}

/** `SCOPE_CONNECTIONS_WRITE` as it is written in configuration: `connections:write`. */
export function scopeName(scope: Scope): string {
  const [name = ""] = Object.entries(Scope).find(([, value]) => value === scope) ?? [];
  return name.toLowerCase().replace("_", ":");
}

export function Button(props: ButtonProps) {
  const { kind = "plain", needs = Scope.UNSPECIFIED, type = "button", isBusy = false } = props;
  const lacks = !may(needs);
  const title = lacks ? `Your key lacks the scope ${scopeName(needs)}` : props.title;
  // A disabled button takes no focus, and its reason would reach nobody who uses the keyboard.
  const isOff = lacks || props.isDisabled === true;
  return (
    <button
      type={type}
      class={`button ${kind}${props.isSmall ? " small" : ""}`}
      aria-busy={isBusy}
      aria-disabled={isOff}
      aria-label={props.label}
      title={title}
      onClick={(event) => {
        if (isOff || isBusy) event.preventDefault();
        else props.onClick?.(event);
      }}
    >
      {props.children}
    </button>
  );
}
