import { refuse } from "../call.ts";

/** A rectangle of cells. Rows and columns count from 0; `bottom` and `right` are not part of it. */
export interface CellRange {
  readonly sheet: string;
  readonly top: number;
  readonly left: number;
  readonly bottom: number;
  readonly right: number;
}

export const maxRows = 10_000;
export const maxColumns = 256;

/** Reads A1 notation: `Sheet1!A1:C3`, `'My sheet'!A1`, `A1:C3` or `Sheet1`. Throws 400 for anything else. */
export function parseRange(text: string, sheets: ReadonlyMap<string, unknown>): CellRange {
  const malformed = refuse(400, "badRequest", `Unable to parse range: ${text}`);
  const bang = text.lastIndexOf("!");
  const [first = ""] = sheets.keys();
  const sheet = bang === -1 ? (sheets.has(text) ? text : first) : text.slice(0, bang).replace(/^'(.*)'$/s, "$1");
  if (!sheets.has(sheet)) throw malformed;
  const cells = bang === -1 ? (sheets.has(text) ? "" : text) : text.slice(bang + 1);
  if (cells === "") return { sheet, top: 0, left: 0, bottom: maxRows, right: maxColumns };
  const [, left, top, , right, bottom] = /^([A-Z]{1,2})(\d{1,5})?(:([A-Z]{1,2})(\d{1,5})?)?$/i.exec(cells) ?? [];
  if (left === undefined) throw malformed;
  const isCell = right === undefined;
  const range = {
    sheet,
    top: top === undefined ? 0 : Number(top) - 1,
    left: columnOf(left),
    bottom: isCell && top !== undefined ? Number(top) : bottom === undefined ? maxRows : Number(bottom),
    right: columnOf(right ?? left) + 1,
  };
  if (range.top < 0 || range.bottom <= range.top || range.right <= range.left) throw malformed;
  return range;
}

export const formatRange = ({ sheet, top, left, bottom, right }: CellRange) =>
  `${/^\w+$/.test(sheet) ? sheet : `'${sheet}'`}!${lettersOf(left)}${top + 1}:${lettersOf(Math.max(left, right - 1))}${Math.max(top + 1, bottom)}`;

/** `A` is 0, `Z` 25, `AA` 26. */
const columnOf = (letters: string) =>
  [...letters.toUpperCase()].reduce((sum, letter) => sum * 26 + letter.charCodeAt(0) - 64, 0) - 1;
const lettersOf = (column: number): string =>
  column < 26 ? String.fromCharCode(65 + column) : `${lettersOf(Math.floor(column / 26) - 1)}${lettersOf(column % 26)}`;
