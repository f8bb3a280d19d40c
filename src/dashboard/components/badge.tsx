import type { ComponentChildren } from "preact";

export type BadgeTone = "good" | "warn" | "bad" | "info" | "quiet";

/** A state in one or two words, with a dot: color is never the only sign. */
export const Badge = ({
  tone,
  children,
  title,
}: {
  readonly tone: BadgeTone;
  readonly children: ComponentChildren;
  readonly title?: string | undefined;
}) => (
  <span class={`badge ${tone}`} title={title}>
    {children}
  </span>
);
