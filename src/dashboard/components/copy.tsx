import { useSignal } from "@preact/signals";
import { Icon } from "./icon.tsx";

const shownMs = 1_500;

/** A button that copies a text. */
export function CopyButton({ text, label = "Copy" }: { readonly text: string; readonly label?: string }) {
  const isCopied = useSignal(false);
  async function copy() {
    await navigator.clipboard.writeText(text);
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
