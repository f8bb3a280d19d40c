import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** Buttons, the main one last. */
  readonly actions?: ComponentChildren;
  /** Called when the person confirms with Enter or the main button (`type="submit"`). */
  readonly onSubmit?: () => void;
  /** A panel at the side, for details beside a list. */
  readonly isDrawer?: boolean;
  readonly isWide?: boolean;
}

/** A question or form over the page. Escape and a click beside it close it; the focus returns. */
export function Dialog({ title, onClose, children, actions, onSubmit, isDrawer = false, isWide = false }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog by itself.
    <dialog
      ref={element}
      class={`${isDrawer ? "drawer" : "dialog"}${isWide ? " wide" : ""}`}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <form
        class="dialog-body"
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit?.();
        }}
      >
        <div class="dialog-head">
          <h2>{title}</h2>
          <button type="button" class="icon-button" aria-label="Close" onClick={onClose}>
            ×
          </button>
        </div>
        <div class="dialog-content">{children}</div>
        {actions !== undefined && <div class="dialog-actions">{actions}</div>}
      </form>
    </dialog>
  );
}
