/** A list as a file of rows, which a person takes to a spreadsheet. */
import { csvText, download } from "./csv.ts";

/** Most rows of one file. */
const maxRows = 10_000;

export interface CsvColumn<T> {
  readonly name: string;
  readonly text: (row: T) => string;
}

interface CsvSource<T> {
  readonly fileName: string;
  readonly columns: readonly CsvColumn<T>[];
  readonly read: (pageToken: string) => Promise<{ readonly items: readonly T[]; readonly nextPageToken: string }>;
}

export interface SavedCsv {
  readonly count: number;
  /** There are more rows than a file takes. */
  readonly hasMore: boolean;
}

/** Reads all pages, up to the limit, and saves them as a file. */
export async function saveCsv<T>({ fileName, columns, read }: CsvSource<T>): Promise<SavedCsv> {
  const rows: T[] = [];
  let pageToken = "";
  do {
    const page = await read(pageToken);
    rows.push(...page.items);
    pageToken = page.nextPageToken;
  } while (pageToken !== "" && rows.length < maxRows);
  const shown = rows.slice(0, maxRows);
  const head = columns.map(({ name }) => name);
  download(
    fileName,
    csvText(
      head,
      shown.map((row) => columns.map(({ text }) => text(row))),
    ),
  );
  return { count: shown.length, hasMore: pageToken !== "" || rows.length > maxRows };
}
