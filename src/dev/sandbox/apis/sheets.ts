import { randomBytes } from "node:crypto";
import type { AccessCheck } from "../auth/access.ts";
import { createBounded } from "../bounded.ts";
import { type Call, json, objectOf, refuse } from "../call.ts";
import type { Person } from "../people.ts";
import type { SandboxRoute } from "../router.ts";

type CellValue = string | number | boolean;

interface Spreadsheet {
  readonly id: string;
  readonly title: string;
  readonly ownerId: string;
  /** Rows of cells, by the sheet's name. */
  readonly sheets: Map<string, (CellValue | undefined)[][]>;
}

interface CellRange {
  readonly sheet: string;
  /** From 0; the end is not part of it, and may be open. */
  readonly top: number;
  readonly left: number;
  readonly bottom: number;
  readonly right: number;
}

/** Each user's spreadsheets: made, and read and written by range in A1 notation. */
export interface Sheets {
  readonly routes: readonly SandboxRoute[];
  reset(): void;
}

const toRead = ["spreadsheets", "spreadsheets.readonly", "drive", "drive.readonly", "drive.file"];
const toWrite = ["spreadsheets", "drive", "drive.file"];
const mostRows = 10_000;
const mostColumns = 256;

export function createSheets({ access }: { readonly access: AccessCheck }): Sheets {
  const spreadsheets = createBounded<Spreadsheet>(1_000);

  function make(person: Person, title: string, id = randomBytes(12).toString("base64url")): Spreadsheet {
    const made: Spreadsheet = { id, title, ownerId: person.id, sheets: new Map([["Sheet1", []]]) };
    spreadsheets.set(keyOf(person, id), made);
    return made;
  }

  /** Everybody has one to begin with, `engines`. */
  function required(person: Person, { params }: Call): Spreadsheet {
    const id = params["id"] ?? "";
    const found = spreadsheets.get(keyOf(person, id));
    if (found !== undefined) return found;
    if (id !== "engines") throw refuse(404, "notFound", "Requested entity was not found.");
    const made = make(person, "Engines", id);
    made.sheets.set("Sheet1", [
      ["engine", "year", "built"],
      ["Difference Engine", 1822, false],
      ["Analytical Engine", 1837, false],
    ]);
    return made;
  }

  function read(call: Call) {
    const { sheets } = required(access.require(call, toRead).person, call);
    const range = rangeOf(call.params["range"] ?? "", sheets);
    const rows = (sheets.get(range.sheet) ?? []).slice(range.top, range.bottom);
    const values = rows.map((row) => withoutTail(Array.from(row.slice(range.left, range.right), (cell) => cell ?? "")));
    while (values.at(-1)?.length === 0) values.pop();
    return json({ range: a1(range), majorDimension: "ROWS", ...(values.length === 0 ? {} : { values }) });
  }

  function write(call: Call, { isAppend }: { readonly isAppend: boolean }) {
    const { id, sheets } = required(access.require(call, toWrite).person, call);
    if (!/^(RAW|USER_ENTERED)$/.test(call.query.get("valueInputOption") ?? "")) {
      throw refuse(400, "badRequest", "'valueInputOption' is required but not specified");
    }
    const asked = rangeOf((call.params["range"] ?? "").replace(/:append$/, ""), sheets);
    const values = valuesOf(objectOf(call)["values"]);
    const rows = sheets.get(asked.sheet) ?? [];
    const top = isAppend ? Math.max(asked.top, rows.length) : asked.top;
    const width = Math.max(0, ...values.map((row) => row.length));
    if (top + values.length > mostRows || asked.left + width > mostColumns) {
      throw refuse(400, "badRequest", `Range exceeds grid limits. Max rows: ${mostRows}, max columns: ${mostColumns}`);
    }
    for (const [i, row] of values.entries()) {
      while (rows.length <= top + i) rows.push([]);
      for (const [j, cell] of row.entries()) {
        // Null leaves a cell as it is.
        if (cell !== null) (rows[top + i] ?? [])[asked.left + j] = cell;
      }
    }
    const updated = { ...asked, top, bottom: top + values.length, right: asked.left + width };
    const updates = {
      spreadsheetId: id,
      updatedRange: a1(updated),
      updatedRows: values.length,
      updatedColumns: width,
      updatedCells: values.reduce((sum, row) => sum + row.length, 0),
    };
    return json(isAppend ? { spreadsheetId: id, updates } : updates);
  }

  const shown = ({ id, title, sheets }: Spreadsheet) => ({
    spreadsheetId: id,
    properties: { title },
    sheets: [...sheets.keys()].map((name, index) => ({ properties: { sheetId: index, title: name, index } })),
  });

  return {
    routes: [
      {
        method: "POST",
        path: "/v4/spreadsheets",
        endpoint: "sheets",
        answer(call) {
          const { person } = access.require(call, toWrite);
          const { title } = Object(objectOf(call)["properties"]) as Record<string, unknown>;
          return json(shown(make(person, typeof title === "string" ? title.slice(0, 255) : "Untitled spreadsheet")));
        },
      },
      {
        method: "GET",
        path: "/v4/spreadsheets/:id",
        endpoint: "sheets",
        answer: (call) => json(shown(required(access.require(call, toRead).person, call))),
      },
      { method: "GET", path: "/v4/spreadsheets/:id/values/:range", endpoint: "sheets", answer: read },
      {
        method: "PUT",
        path: "/v4/spreadsheets/:id/values/:range",
        endpoint: "sheets",
        answer: (call) => write(call, { isAppend: false }),
      },
      {
        method: "POST",
        path: "/v4/spreadsheets/:id/values/:range",
        endpoint: "sheets",
        answer(call) {
          if (!call.params["range"]?.endsWith(":append")) throw refuse(404, "notFound", "Not found.");
          return write(call, { isAppend: true });
        },
      },
    ],
    reset: () => spreadsheets.clear(),
  };
}

const keyOf = (person: Person, id: string) => `${person.id}\0${id}`;

/** `Sheet1!A1:C3`, `'My sheet'!A1`, `A1:C3`, `Sheet1`. */
function rangeOf(text: string, sheets: Spreadsheet["sheets"]): CellRange {
  const bad = refuse(400, "badRequest", `Unable to parse range: ${text}`);
  const bang = text.lastIndexOf("!");
  const [first = ""] = sheets.keys();
  const named = bang === -1 ? (sheets.has(text) ? text : first) : text.slice(0, bang).replace(/^'(.*)'$/s, "$1");
  if (!sheets.has(named)) throw bad;
  const cells = bang === -1 ? (sheets.has(text) ? "" : text) : text.slice(bang + 1);
  if (cells === "") return { sheet: named, top: 0, left: 0, bottom: mostRows, right: mostColumns };
  const [, left, top, , right, bottom] = /^([A-Z]{1,2})(\d{1,5})?(:([A-Z]{1,2})(\d{1,5})?)?$/i.exec(cells) ?? [];
  if (left === undefined) throw bad;
  const isCell = right === undefined;
  const range = {
    sheet: named,
    top: top === undefined ? 0 : Number(top) - 1,
    left: columnOf(left),
    bottom: isCell && top !== undefined ? Number(top) : bottom === undefined ? mostRows : Number(bottom),
    right: columnOf(right ?? left) + 1,
  };
  if (range.top < 0 || range.bottom <= range.top || range.right <= range.left) throw bad;
  return range;
}

/** `A` is 0, `Z` 25, `AA` 26. */
const columnOf = (letters: string) =>
  [...letters.toUpperCase()].reduce((sum, letter) => sum * 26 + letter.charCodeAt(0) - 64, 0) - 1;
const lettersOf = (column: number): string =>
  column < 26 ? String.fromCharCode(65 + column) : `${lettersOf(Math.floor(column / 26) - 1)}${lettersOf(column % 26)}`;

const a1 = ({ sheet, top, left, bottom, right }: CellRange) =>
  `${/^\w+$/.test(sheet) ? sheet : `'${sheet}'`}!${lettersOf(left)}${top + 1}:${lettersOf(Math.max(left, right - 1))}${Math.max(top + 1, bottom)}`;

function valuesOf(values: unknown): readonly (readonly (CellValue | null)[])[] {
  const isCell = (cell: unknown): cell is CellValue | null =>
    cell === null || /^(string|number|boolean)$/.test(typeof cell);
  if (
    !Array.isArray(values) ||
    !values.every((row): row is (CellValue | null)[] => Array.isArray(row) && row.every(isCell))
  ) {
    throw refuse(400, "badRequest", "'values' must be rows of cells");
  }
  return values;
}

function withoutTail(row: CellValue[]): CellValue[] {
  while (row.at(-1) === "") row.pop();
  return row;
}
