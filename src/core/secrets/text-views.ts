/** Text with one encoding removed, as UTF-8 bytes in lower case, and the original position of each byte. */
export interface TextView {
  /** Text with one letter per byte. */
  readonly letters: string;
  readonly from: readonly number[];
  readonly to: readonly number[];
}

/**
 * Returns the text as written; with percent-encoding undone once and twice, and `+` of forms; with JSON escapes undone;
 * without NULs.
 */
export function viewsOf(text: string): TextView[] {
  const plain = bytesOf(text);
  const once = withoutPercent(plain);
  const views = [plain];
  if (once !== plain) views.push(once, withoutPercent(once));
  if (text.includes("+")) views.push(withSpaces(once));
  if (text.includes("\\")) views.push(withoutEscapes(plain));
  if (text.includes("\0")) views.push(withoutNuls(plain));
  return views.map(lowered);
}

export const plainView = (text: string): TextView => lowered(bytesOf(text));

const lowered = (view: TextView): TextView => ({ ...view, letters: view.letters.toLowerCase() });

interface ViewDraft {
  letters: string;
  readonly from: number[];
  readonly to: number[];
}

const draft = (): ViewDraft => ({ letters: "", from: [], to: [] });

function add(view: ViewDraft, letters: string, from: number, to: number): void {
  view.letters += letters;
  for (let i = 0; i < letters.length; i += 1) {
    view.from.push(from);
    view.to.push(to);
  }
}

const utf8 = (text: string): string => Buffer.from(text).toString("latin1");

function bytesOf(text: string): TextView {
  const view = draft();
  let at = 0;
  for (const letter of text) {
    add(view, letter < "\x80" ? letter : utf8(letter), at, at + letter.length);
    at += letter.length;
  }
  return view;
}

/** Replaces each match of a pattern and keeps the rest. */
function replaced(view: TextView, pattern: RegExp, replacement: (match: readonly string[]) => string): TextView {
  const result = draft();
  const copy = (from: number, to: number) => {
    result.letters += view.letters.slice(from, to);
    for (let at = from; at < to; at += 1) {
      result.from.push(view.from[at] ?? 0);
      result.to.push(view.to[at] ?? 0);
    }
  };
  let done = 0;
  for (const match of view.letters.matchAll(pattern)) {
    const end = match.index + match[0].length;
    copy(done, match.index);
    add(result, replacement(match), view.from[match.index] ?? 0, view.to[end - 1] ?? 0);
    done = end;
  }
  if (done === 0) return view;
  copy(done, view.letters.length);
  return result;
}

const withoutPercent = (view: TextView): TextView =>
  replaced(view, /%([0-9a-f]{2})/gi, ([, hex = ""]) => String.fromCharCode(Number.parseInt(hex, 16)));

const withSpaces = (view: TextView): TextView => replaced(view, /\+/g, () => " ");

const withoutNuls = (view: TextView): TextView => replaced(view, /\0/g, () => "");

const escapes: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f" };

/** RFC 8259, section 7. A surrogate pair is one character. */
const withoutEscapes = (view: TextView): TextView =>
  replaced(view, /(?:\\u[0-9a-f]{4})+|\\([\s\S])/gi, ([whole = "", letter]) =>
    letter === undefined || whole.length > 2
      ? utf8(
          String.fromCharCode(
            ...whole
              .split("\\u")
              .slice(1)
              .map((hex) => Number.parseInt(hex, 16)),
          ),
        )
      : (escapes[letter] ?? letter),
  );
