import type { Mistake } from "../../base/fault.ts";

/** Beyond this limit, readers may disagree on which integer a JSON number is (RFC 8259, section 6). */
const maxExact = Number.MAX_SAFE_INTEGER;
/** 17 digits identify a double uniquely; programs write no more. */
const maxDigits = 17;
const maxMistakes = 100;

/** Describes what storing the number would change; undefined if it is stored exactly. */
export function inexactNumber(value: number): string | undefined {
  if (!Number.isFinite(value)) return "must be a finite number";
  if (Object.is(value, -0)) return "must not be -0; send 0";
  if (Number.isInteger(value) && Math.abs(value) > maxExact)
    return `must be from -${maxExact} to ${maxExact}, or text, since larger integers lose digits`;
  return undefined;
}

function inexactLiteral(literal: string): string | undefined {
  const value = Number(literal);
  const wrong = inexactNumber(value);
  if (wrong !== undefined) return wrong;
  const [mantissa = ""] = literal.split(/[eE]/);
  const digits = mantissa.replace(/[-.]/g, "").replace(/^0+/, "");
  if (value === 0 && digits !== "") return "is too small for a number and would become 0; send text";
  if (digits.replace(/0+$/, "").length > maxDigits)
    return `must have at most ${maxDigits} digits, or be text, since further digits are lost`;
  return undefined;
}

const numberForm = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

interface Frame {
  /** Keys of an object so far; undefined: an array. */
  readonly keys: Set<string> | undefined;
  /** The key or index that is being read. */
  at: string | number;
  isKeyNext: boolean;
}

/**
 * Finds everything that parsing this JSON text would change silently: numbers that lose digits or a sign, duplicate
 * keys, lone surrogates. The text must be valid JSON. Duplicate top-level fields of a request are allowed: the last one
 * wins.
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
    // Lone surrogates can only appear as escapes: bytes that are not UTF-8 were refused earlier.
    const value = isEscaped ? String(JSON.parse(`"${raw}"`)) : raw;
    if (frame?.keys !== undefined && frame.isKeyNext) {
      if (isEscaped && !value.isWellFormed()) refuse("must have well-formed Unicode keys");
      frame.at = value;
      if (frame.keys.has(value) && (frames.length > 1 || !isRequest)) refuse("is a duplicate");
      frame.keys.add(value);
    } else if (isEscaped && !value.isWellFormed()) refuse("must be well-formed Unicode");
    return end + 1;
  }

  function readNumber(from: number): number {
    numberForm.lastIndex = from;
    const literal = numberForm.exec(text)?.[0] ?? "";
    // Most numbers have few digits and are always exact.
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

/** Returns the index of the closing quote of the string that starts at `from`. */
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
