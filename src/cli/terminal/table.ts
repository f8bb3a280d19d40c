import { escapeControl } from "./escape-control.ts";
import type { Paint, Tone } from "./paint.ts";

/** A table column: its title, and the text of each row. */
export interface Column<Row> {
  readonly title: string;
  readonly text: (row: Row) => string;
  readonly tone?: (row: Row) => Tone;
}

/** Draws rows in aligned columns, in batches: a list may be larger than memory. */
export interface Table<Row> {
  draw(rows: readonly Row[]): string;
}

const gap = "  ";

/** Shows titles above the first batch; later batches keep the widths, and widen them if necessary. */
export function createTable<Row>(columns: readonly Column<Row>[], paint: Paint): Table<Row> {
  const widths = columns.map(({ title }) => widthOf(title));
  let titled = false;

  const line = (cells: readonly Cell[]) =>
    cells
      .map(
        ({ text, tone }, at) =>
          paint(tone, text) + blanks(at === cells.length - 1 ? 0 : (widths[at] ?? 0) - widthOf(text)),
      )
      .join(gap)
      .trimEnd();

  return {
    draw(rows) {
      if (rows.length === 0) return "";
      const cells = rows.map((row) => columns.map((column) => cellOf(column, row)));
      for (const [at, width] of widths.entries()) {
        widths[at] = cells.reduce((widest, row) => Math.max(widest, widthOf(row[at]?.text ?? "")), width);
      }
      const head = titled ? [] : [columns.map(({ title }): Cell => ({ text: title, tone: "bold" }))];
      titled = true;
      return [...head, ...cells].map((row) => `${line(row)}\n`).join("");
    },
  };
}

interface Cell {
  readonly text: string;
  readonly tone: Tone;
}

function cellOf<Row>({ text, tone }: Column<Row>, row: Row): Cell {
  const shown = escapeControl(text(row));
  return shown === "" ? { text: "-", tone: "dim" } : { text: shown, tone: tone?.(row) ?? "plain" };
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
