/** A member of an object in the text of a JSON-RPC message, which has one character for each byte. */
interface Member {
  readonly key: string;
  /** Key and value as they are written. */
  readonly text: string;
  readonly value: string;
}

const isBlank = (mark: string | undefined): boolean => mark === " " || mark === "\n" || mark === "\r" || mark === "\t";

function afterBlanks(text: string, from: number): number {
  let at = from;
  while (isBlank(text[at])) at += 1;
  return at;
}

/** Returns the position after a text in quotes. */
function afterText(text: string, from: number): number {
  let at = from + 1;
  for (; at < text.length && text[at] !== '"'; at += 1) if (text[at] === "\\") at += 1;
  return at + 1;
}

/** Returns the position after a value. */
function afterValue(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    const mark = text[at];
    if (mark === '"') {
      at = afterText(text, at) - 1;
      if (depth === 0) return at + 1;
    } else if (mark === "{" || mark === "[") depth += 1;
    else if (mark === "}" || mark === "]") {
      if (depth === 0) return at;
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (mark === "," || isBlank(mark))) return at;
  }
  return text.length;
}

/** Returns the members of an object; none if the value is another. The text must be JSON. */
export function membersOf(object: string): readonly Member[] {
  const found: Member[] = [];
  let at = afterBlanks(object, 0);
  if (object[at] !== "{") return found;
  for (;;) {
    at = afterBlanks(object, at + 1);
    if (object[at] !== '"') return found;
    const start = at;
    const keyEnd = afterText(object, at);
    const valueStart = afterBlanks(object, afterBlanks(object, keyEnd) + 1);
    const end = afterValue(object, valueStart);
    const key = JSON.parse(object.slice(start, keyEnd)) as string;
    found.push({ key, text: object.slice(start, end), value: object.slice(valueStart, end) });
    at = afterBlanks(object, end);
    if (object[at] !== ",") return found;
  }
}

/** Writes an object with the given members instead of the former ones of their keys; undefined: without one. */
export function withMembers(object: string, changes: Readonly<Record<string, string | undefined>>): string {
  const members = membersOf(object);
  const kept = members.flatMap(({ key, text }) => {
    if (!Object.hasOwn(changes, key)) return [text];
    const value = changes[key];
    return value === undefined ? [] : [`${JSON.stringify(key)}:${value}`];
  });
  const known = new Set(members.map(({ key }) => key));
  const added = Object.entries(changes).flatMap(([key, value]) =>
    value === undefined || known.has(key) ? [] : [`${JSON.stringify(key)}:${value}`],
  );
  return `{${[...kept, ...added].join(",")}}`;
}

/** Returns the value of a member as it is written. */
export const memberOf = (object: string, name: string): string | undefined =>
  membersOf(object).find(({ key }) => key === name)?.value;
