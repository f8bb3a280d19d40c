import { CopyButton } from "./copy.tsx";

/** A text as it is, such as a payload or a command, with a button that copies it. */
export const Code = ({ text, label = "text" }: { readonly text: string; readonly label?: string }) => (
  <section class="code-box" aria-label={label}>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard. */}
    <pre tabIndex={0}>{text}</pre>
    <CopyButton text={text} label={`Copy the ${label}`} />
  </section>
);

/** Pretty JSON if it is JSON, else the text as it is. */
export function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    /* Not JSON. */
    return text;
  }
}
