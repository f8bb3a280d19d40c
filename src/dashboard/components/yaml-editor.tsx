import { useEffect, useId, useRef } from "preact/hooks";

/** A mistake at a line of the text. */
export interface EditorMistake {
  readonly line: number;
  readonly column: number;
  readonly path: string;
  readonly message: string;
}

interface YamlEditorProps {
  readonly label: string;
  readonly text: string;
  readonly onInput: (text: string) => void;
  readonly mistakes: readonly EditorMistake[];
  readonly warnings: readonly EditorMistake[];
  readonly isReadOnly?: boolean;
}

/** A text with line numbers. Lines with mistakes are marked, and the list below leads to them. */
export function YamlEditor({ label, text, onInput, mistakes, warnings, isReadOnly = false }: YamlEditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const numbers = useRef<HTMLDivElement>(null);
  const id = useId();
  const lines = text.split("\n").length;
  const toneOf = new Map([
    ...warnings.map(({ line }) => [line, "warn"] as const),
    ...mistakes.map(({ line }) => [line, "bad"] as const),
  ]);
  useEffect(() => {
    const element = area.current;
    if (element === null) return;
    const follow = () => {
      if (numbers.current !== null) numbers.current.scrollTop = element.scrollTop;
    };
    element.addEventListener("scroll", follow);
    return () => element.removeEventListener("scroll", follow);
  }, []);
  function goTo({ line, column }: EditorMistake) {
    const element = area.current;
    if (element === null) return;
    const before = text.split("\n").slice(0, line - 1);
    const at = before.reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
    element.focus();
    element.setSelectionRange(at, at);
    element.scrollTop = Math.max(0, (line - 4) * (element.scrollHeight / Math.max(lines, 1)));
  }
  return (
    <div class="editor">
      <div class="editor-box">
        <div ref={numbers} class="editor-numbers" aria-hidden="true">
          {Array.from({ length: lines }, (_, i) => (
            <span key={i} class={toneOf.get(i + 1)}>
              {i + 1}
            </span>
          ))}
        </div>
        <textarea
          ref={area}
          class="code"
          aria-label={label}
          aria-describedby={`${id}-mistakes`}
          aria-invalid={mistakes.length > 0}
          value={text}
          readOnly={isReadOnly}
          wrap="off"
          spellcheck={false}
          autocomplete="off"
          onInput={(event) => onInput(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !isReadOnly && indent(event.currentTarget)) event.preventDefault();
          }}
        />
      </div>
      <ul class="editor-mistakes" id={`${id}-mistakes`} aria-live="polite">
        {[...mistakes.map((one) => ({ one, tone: "bad" })), ...warnings.map((one) => ({ one, tone: "warn" }))].map(
          ({ one, tone }, i) => (
            <li key={i} class={tone}>
              <button type="button" onClick={() => goTo(one)}>
                <span class="editor-line">Line {one.line}</span>
                <span>
                  {one.path !== "" && <code>{one.path}</code>} {one.message}
                </span>
              </button>
            </li>
          ),
        )}
      </ul>
    </div>
  );
}

/** Begins the next line where this one begins. Returns whether it did. */
function indent(element: HTMLTextAreaElement): boolean {
  const { value, selectionStart } = element;
  const line = value.slice(value.lastIndexOf("\n", selectionStart - 1) + 1, selectionStart);
  const [space = ""] = /^ */.exec(line) ?? [];
  const deeper = /:\s*$/.test(line) ? "  " : "";
  if (space === "" && deeper === "") return false;
  element.setRangeText(`\n${space}${deeper}`, selectionStart, element.selectionEnd, "end");
  element.dispatchEvent(new Event("input", { bubbles: true }));
  return true;
}
