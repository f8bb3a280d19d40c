import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { escapeControl } from "./escape-control.ts";
import { formatAge, formatTime } from "./format.ts";
import type { Paint, Tone } from "./paint.ts";

/** A table column: its title, and the text or time of each row. */
export type Column<Row> = TextColumn<Row> | TimeColumn<Row>;

interface TextColumn<Row> {
  readonly title: string;
  readonly text: (row: Row) => string;
  readonly tone?: (row: Row) => Tone;
}

interface TimeColumn<Row> {
  readonly title: string;
  readonly time: (row: Row) => Timestamp | undefined;
}

/** How a table is laid out. */
export interface TableLayout {
  /** The columns of the terminal; undefined: lines are never cut. */
  readonly width?: number | undefined;
  /** Show ages instead of times. */
  readonly brief: boolean;
}

/** Draws rows in aligned columns, in batches: a list may be larger than memory. */
export interface Table<Row> {
  draw(rows: readonly Row[]): string;
}

const gap = "  ";
/** A cut column keeps this width, so that its text can still be recognized. */
const minCutWidth = 8;

/**
 * Shows titles above the first batch; later batches keep the widths, and widen them if necessary. In a limited width,
 * texts are cut, but for those of the first column; columns without room for that are left out.
 */
export function createTable<Row>(
  columns: readonly Column<Row>[],
  paint: Paint,
  { width, brief }: TableLayout = { brief: false },
): Table<Row> {
  let shown = columns;
  let natural = columns.map(({ title }) => widthOf(title));
  let titled = false;

  const line = (cells: readonly Cell[], widths: readonly number[]) =>
    cells
      .map(({ text, tone }, at) => {
        const room = widths[at] ?? 0;
        const fitting = width === undefined || at === 0 ? text : cut(text, room);
        return paint(tone, fitting) + blanks(at === cells.length - 1 ? 0 : room - widthOf(fitting));
      })
      .join(gap)
      .trimEnd();

  const measure = (rows: readonly (readonly Cell[])[]) =>
    natural.map((before, at) => rows.reduce((widest, row) => Math.max(widest, widthOf(row[at]?.text ?? "")), before));

  return {
    draw(rows) {
      if (rows.length === 0) return "";
      let cells = rows.map((row) => shown.map((column) => cellOf(column, row, brief)));
      natural = measure(cells);
      if (!titled && width !== undefined) {
        const isEmpty = shown.map((_, at) => cells.every((row) => row[at]?.isEmpty === true));
        const kept = columnsThatFit({ natural, isEmpty, titles: shown.map(({ title }) => widthOf(title)), width });
        const pick = <T>(list: readonly T[]) => list.filter((_, at) => kept[at]);
        shown = pick(shown);
        natural = pick(natural);
        cells = cells.map(pick);
      }
      const widths = width === undefined ? natural : shrunk(natural, minimums(shown), width);
      const head = titled ? [] : [shown.map(({ title }): Cell => ({ text: title, tone: "bold", isEmpty: false }))];
      titled = true;
      return [...head, ...cells].map((row) => `${line(row, widths)}\n`).join("");
    },
  };
}

const minimums = <Row>(columns: readonly Column<Row>[]) =>
  columns.map(({ title }) => Math.max(widthOf(title), minCutWidth));

const totalOf = (widths: readonly number[]) =>
  widths.reduce((sum, width) => sum + width, 0) + gap.length * Math.max(0, widths.length - 1);

interface TableMeasures {
  readonly natural: readonly number[];
  readonly titles: readonly number[];
  readonly isEmpty: readonly boolean[];
  readonly width: number;
}

/** Leaves out empty columns first, then those at the end that have no room even when all are cut. */
function columnsThatFit({ natural, titles, isEmpty, width }: TableMeasures): readonly boolean[] {
  const kept = natural.map(() => true);
  const total = (widths: readonly number[]) => totalOf(widths.filter((_, at) => kept[at]));
  const smallest = natural.map((wide, at) =>
    at === 0 ? wide : Math.min(wide, Math.max(titles[at] ?? 0, minCutWidth)),
  );
  for (let at = natural.length - 1; at > 0 && total(natural) > width; at--) if (isEmpty[at]) kept[at] = false;
  for (let at = natural.length - 1; at > 1 && total(smallest) > width; at--) kept[at] = false;
  return kept;
}

/** Narrows the widest columns until the line fits, or nothing can be narrowed. The first column keeps its width. */
function shrunk(natural: readonly number[], smallest: readonly number[], width: number): readonly number[] {
  const widths = [...natural];
  for (let excess = totalOf(widths) - width; excess > 0; excess--) {
    let widest = 0;
    for (let at = 1; at < widths.length; at++) {
      const isCuttable = (widths[at] ?? 0) > (smallest[at] ?? 0);
      if (isCuttable && (widest === 0 || (widths[at] ?? 0) > (widths[widest] ?? 0))) widest = at;
    }
    if (widest === 0) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

/** Cuts a text to a display width, with an ellipsis at its end. */
export function cut(text: string, room: number): string {
  if (widthOf(text) <= room) return text;
  let kept = "";
  let used = 0;
  for (const character of text) {
    const next = used + widthOf(character);
    if (next > room - 1) break;
    kept += character;
    used = next;
  }
  return `${kept}…`;
}

interface Cell {
  readonly text: string;
  readonly tone: Tone;
  readonly isEmpty: boolean;
}

/** Returns the full text of a column, without escapes. */
export const textOf = <Row>(column: Column<Row>, row: Row): string =>
  "time" in column ? formatTime(column.time(row)) : column.text(row);

function cellOf<Row>(column: Column<Row>, row: Row, brief: boolean): Cell {
  const text = brief && "time" in column ? formatAge(column.time(row)) : textOf(column, row);
  if (text === "") return { text: "-", tone: "dim", isEmpty: true };
  const tone = "time" in column ? undefined : column.tone?.(row);
  return { text: escapeControl(text), tone: tone ?? "plain", isEmpty: false };
}

const blanks = (count: number) => " ".repeat(Math.max(0, count));

const wide =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\uff01-\uff60]/u;
const combining = /\p{Mark}|\u200d/u;
const ascii = /^[\x20-\x7e]*$/;

/** Returns the display width of text, accurately enough for names and IDs in any script. */
function widthOf(text: string): number {
  if (ascii.test(text)) return text.length;
  return [...text].reduce(
    (width, character) => width + (combining.test(character) ? 0 : wide.test(character) ? 2 : 1),
    0,
  );
}
