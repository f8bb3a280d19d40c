import type { ComponentChildren } from "preact";
import type { CallFault } from "../state/fault.ts";
import { Button } from "./button.tsx";

/** What a page shows where something is missing: what it is, and the next step. */
export const Empty = ({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) => (
  <div class="empty">
    <h2>{title}</h2>
    {children}
  </div>
);

/** A failure with its cause, what to do, and the way to try again. */
export const FaultNotice = ({ fault, retry }: { readonly fault: CallFault; readonly retry?: () => void }) => (
  <div class="notice bad" role="alert">
    <p>
      {fault.message} {fault.hint}
    </p>
    <p class="notice-foot">
      {fault.code !== "" && <code>{fault.code}</code>}
      {fault.docUrl !== undefined && (
        <a href={fault.docUrl} target="_blank" rel="noreferrer">
          What this means
        </a>
      )}
      {retry !== undefined && (
        <Button isSmall onClick={retry}>
          Try again
        </Button>
      )}
    </p>
  </div>
);

export const Notice = ({
  tone = "info",
  children,
}: {
  readonly tone?: "info" | "warn" | "good" | "bad";
  readonly children: ComponentChildren;
}) => <div class={`notice ${tone}`}>{children}</div>;

/** Bars in place of lines that are on their way. Shown only after a wait (`isSlow` of `useLoad`). */
export const Skeleton = ({ lines = 6 }: { readonly lines?: number }) => (
  <div class="skeleton" aria-busy="true" role="status" aria-label="Loading">
    {Array.from({ length: lines }, (_, i) => (
      <span key={i} />
    ))}
  </div>
);
