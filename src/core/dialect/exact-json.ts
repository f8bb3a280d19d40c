import type { Mistake } from "../../base/fault.ts";

/** Beyond it a number of JSON is one integer for some readers and another for others (RFC 8259, section 6). */
const maxExact = Number.MAX_SAFE_INTEGER;
/** A double is told from its neighbours by so many digits; programs write no more. */
const maxDigits = 17;
const maxMistakes = 100;

/** What keeping a number would change; undefined: it is kept as it is. */
export function inexactNumber(value: number): string | undefined {
  if (!Number.isFinite(value)) return "must be a finite number";
  if (Object.is(value, -0)) return "must not be -0: its sign would be lost; send 0";
  if (Number.isInteger(value) && Math.abs(value) > maxExact)
    return `must be from -${maxExact} to ${maxExact}, or text: larger integers lose digits`;
  return undefined;
}

function inexactLiteral(literal: string): string | undefined {
  const value = Number(literal);
  const wrong = inexactNumber(value);
  if (wrong !== undefined) return wrong;
  const [mantissa = ""] = literal.split(/[eE]/);
  const digits = mantissa.replace(/[-.]/g, "").replace(/^0+/, "");
  if (value === 0 && digits !== "") return "is too small for a number, and would become 0; send text";
  if (digits.replace(/0+$/, "").length > maxDigits)
    return `must have at most ${maxDigits} digits, or be text: the others would be lost`;
  return undefined;
}

const numberForm = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

interface Frame {
  /** Of an object, the keys so far; undefined: an array. */
  readonly keys: Set<string> | undefined;
  /** The key or the index that is being read. */
  at: string | number;
  isKeyNext: boolean;
}

/**
 * Finds what reading this text as JSON changes without a word: a number that loses digits or its sign, a key that is
 * there twice, half a character. The text must be JSON. Of the fields of a request itself the last of two counts.
 */
export function findInexact(text: string, { isRequest = true }: { readonly isRequest?: boolean } = {}): Mistake[] {
  const found: Mistake[] = [];
  const frames: Frame[] = [];
  const path = (): string[] => frames.map(({ at }) => String(at));
  const refuse = (message: string) => {
    if (found.length < maxMistakes) found.push({ path: path(), message });
  };

  function readText(from: number): number {
    const end = endOfText(text, from);
    const frame = frames.at(-1);
    const raw = text.slice(from + 1, end);
    const isEscaped = raw.includes("\\");
    // Unpaired halves can only be written as escapes: bytes that are not UTF-8 were refused before.
    const value = isEscaped ? String(JSON.parse(`"${raw}"`)) : raw;
    if (frame?.keys !== undefined && frame.isKeyNext) {
      if (isEscaped && !value.isWellFormed()) refuse("must have well-formed Unicode as its keys");
      frame.at = value;
      if (frame.keys.has(value) && (frames.length > 1 || !isRequest)) refuse("is there twice");
      frame.keys.add(value);
    } else if (isEscaped && !value.isWellFormed()) refuse("must be well-formed Unicode");
    return end + 1;
  }

  function readNumber(from: number): number {
    numberForm.lastIndex = from;
    const literal = numberForm.exec(text)?.[0] ?? "";
    // Most are a few digits, and nothing can be wrong with them.
    if (literal.length > 15 || /^-0|[eE]/.test(literal)) {
      const wrong = inexactLiteral(literal);
      if (wrong !== undefined) refuse(wrong);
    }
    return from + Math.max(1, literal.length);
  }

  function readComma(): void {
    const frame = frames.at(-1);
    if (frame === undefined) return;
    if (frame.keys !== undefined) frame.isKeyNext = true;
    else frame.at = Number(frame.at) + 1;
  }

  for (let i = 0; i < text.length; ) {
    const code = text.charCodeAt(i);
    if (code === quote) {
      i = readText(i);
      continue;
    }
    if (code === minus || (code >= zero && code <= nine)) {
      i = readNumber(i);
      continue;
    }
    if (code === comma) readComma();
    else if (code === colon) {
      const frame = frames.at(-1);
      if (frame !== undefined) frame.isKeyNext = false;
    } else if (code === openObject) frames.push({ keys: new Set(), at: "", isKeyNext: true });
    else if (code === openArray) frames.push({ keys: undefined, at: 0, isKeyNext: false });
    else if (code === closeObject || code === closeArray) frames.pop();
    i += 1;
  }
  return found;
}

/** Where the text that begins here ends. */
function endOfText(text: string, from: number): number {
  for (let end = text.indexOf('"', from + 1); ; end = text.indexOf('"', end + 1)) {
    if (end === -1) return text.length;
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === backslash) slashes += 1;
    if (slashes % 2 === 0) return end;
  }
}

const [quote, minus, zero, nine, comma, colon] = [0x22, 0x2d, 0x30, 0x39, 0x2c, 0x3a];
const [openObject, closeObject, openArray, closeArray, backslash] = [0x7b, 0x7d, 0x5b, 0x5d, 0x5c];
