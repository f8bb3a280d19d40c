/** Returns the text between two positions without surrounding blanks, which have no meaning (RFC 9110, 5.5). */
export function trimmed(text: string, from: number, to: number): string {
  const start = afterBlanks(text, from, to);
  return text.slice(start, beforeBlanks(text, start, to));
}

export function afterBlanks(text: string, from: number, to: number): number {
  let start = from;
  while (start < to && isBlank(text.charCodeAt(start))) start += 1;
  return start;
}

export function beforeBlanks(text: string, from: number, to: number): number {
  let end = to;
  while (end > from && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return end;
}

const isBlank = (code: number): boolean => code === 32 || code === 9;
