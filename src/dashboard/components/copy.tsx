import { useSignal } from "@preact/signals";
import { Icon } from "./icon.tsx";

const shownMs = 1_500;

/** Browsers offer the clipboard only over TLS and on this machine's own addresses; elsewhere a selection is copied. */
async function writeClipboard(text: string): Promise<void> {
  if (window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "off-screen";
  // Within an open dialog only its own elements can be selected.
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** A button that copies a text. */
export function CopyButton({ text, label = "Copy" }: { readonly text: string; readonly label?: string }) {
  const isCopied = useSignal(false);
  async function copy() {
    await writeClipboard(text);
    isCopied.value = true;
    setTimeout(() => {
      isCopied.value = false;
    }, shownMs);
  }
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={isCopied.value ? "Copied" : label}
      title={label}
      onClick={() => void copy()}
    >
      <Icon name={isCopied.value ? "check" : "copy"} />
    </button>
  );
}

/** A value that people take elsewhere, such as a redirect URL. */
export const CopyField = ({ text, label }: { readonly text: string; readonly label: string }) => (
  <span class="copy-field">
    <code>{text}</code>
    <CopyButton text={text} label={`Copy the ${label}`} />
  </span>
);
