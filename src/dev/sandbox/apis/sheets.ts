import { randomBytes } from "node:crypto";
import type { AccessCheck } from "../auth/access.ts";
import { createBounded } from "../bounded.ts";
import { type Call, json, objectOf, refuse, type SandboxAnswer } from "../call.ts";
import type { Person } from "../people.ts";
import type { SandboxRoute } from "../router.ts";
import { formatRange, maxColumns, maxRows, parseRange } from "./a1-range.ts";

type CellValue = string | number | boolean;
/** Null leaves a cell as it is. */
type WrittenValue = CellValue | null;

interface Spreadsheet {
  readonly id: string;
  readonly title: string;
  readonly ownerId: string;
  /** Rows of cells, by the sheet's name. */
  readonly sheets: Map<string, (CellValue | undefined)[][]>;
}

/** Each user's spreadsheets: created, and read and written by range in A1 notation. */
export interface Sheets {
  readonly routes: readonly SandboxRoute[];
  reset(): void;
}

const readScopes = ["spreadsheets", "spreadsheets.readonly", "drive", "drive.readonly", "drive.file"];
const writeScopes = ["spreadsheets", "drive", "drive.file"];

export function createSheets({ access }: { readonly access: AccessCheck }): Sheets {
  const spreadsheets = createBounded<Spreadsheet>(1_000);

  function add(person: Person, title: string, id = randomBytes(12).toString("base64url")): Spreadsheet {
    const added: Spreadsheet = { id, title, ownerId: person.id, sheets: new Map([["Sheet1", []]]) };
    spreadsheets.set(keyOf(person, id), added);
    return added;
  }

  /** Each user starts with one spreadsheet, `engines`. */
  function spreadsheetOf(call: Call, scopes: readonly string[]): Spreadsheet {
    const { person } = access.require(call, scopes);
    const id = call.params["id"] ?? "";
    const found = spreadsheets.get(keyOf(person, id));
    if (found !== undefined) return found;
    if (id !== "engines") throw refuse(404, "notFound", "Requested entity was not found.");
    const sample = add(person, "Engines", id);
    sample.sheets.set("Sheet1", [
      ["engine", "year", "built"],
      ["Difference Engine", 1822, false],
      ["Analytical Engine", 1837, false],
    ]);
    return sample;
  }

  function create(call: Call): SandboxAnswer {
    const { person } = access.require(call, writeScopes);
    const { title } = Object(objectOf(call)["properties"]) as Record<string, unknown>;
    return json(shown(add(person, typeof title === "string" ? title.slice(0, 255) : "Untitled spreadsheet")));
  }

  function append(call: Call): SandboxAnswer {
    if (!call.params["range"]?.endsWith(":append")) throw refuse(404, "notFound", "Not found.");
    return writeValues(spreadsheetOf(call, writeScopes), call, { isAppend: true });
  }

  const one = "/v4/spreadsheets/:id";
  return {
    routes: [
      { method: "POST", path: "/v4/spreadsheets", endpoint: "sheets", answer: create },
      { method: "GET", path: one, endpoint: "sheets", answer: (call) => json(shown(spreadsheetOf(call, readScopes))) },
      {
        method: "GET",
        path: `${one}/values/:range`,
        endpoint: "sheets",
        answer: (call) => readValues(spreadsheetOf(call, readScopes), call),
      },
      {
        method: "PUT",
        path: `${one}/values/:range`,
        endpoint: "sheets",
        answer: (call) => writeValues(spreadsheetOf(call, writeScopes), call, { isAppend: false }),
      },
      { method: "POST", path: `${one}/values/:range`, endpoint: "sheets", answer: append },
    ],
    reset: () => spreadsheets.clear(),
  };
}

const keyOf = (person: Person, id: string) => `${person.id}\0${id}`;

const shown = ({ id, title, sheets }: Spreadsheet) => ({
  spreadsheetId: id,
  properties: { title },
  sheets: [...sheets.keys()].map((name, index) => ({ properties: { sheetId: index, title: name, index } })),
});

function readValues({ sheets }: Spreadsheet, { params }: Call): SandboxAnswer {
  const range = parseRange(params["range"] ?? "", sheets);
  const rows = (sheets.get(range.sheet) ?? []).slice(range.top, range.bottom);
  const values = rows.map((row) =>
    withoutEmptyEnd(Array.from(row.slice(range.left, range.right), (cell) => cell ?? "")),
  );
  while (values.at(-1)?.length === 0) values.pop();
  return json({ range: formatRange(range), majorDimension: "ROWS", ...(values.length === 0 ? {} : { values }) });
}

function withoutEmptyEnd(row: CellValue[]): CellValue[] {
  while (row.at(-1) === "") row.pop();
  return row;
}

function writeValues(
  { id, sheets }: Spreadsheet,
  call: Call,
  { isAppend }: { readonly isAppend: boolean },
): SandboxAnswer {
  if (!/^(RAW|USER_ENTERED)$/.test(call.query.get("valueInputOption") ?? "")) {
    throw refuse(400, "badRequest", "'valueInputOption' is required but not specified");
  }
  const range = parseRange((call.params["range"] ?? "").replace(/:append$/, ""), sheets);
  const values = valuesOf(objectOf(call)["values"]);
  const rows = sheets.get(range.sheet) ?? [];
  const top = isAppend ? Math.max(range.top, rows.length) : range.top;
  const width = Math.max(0, ...values.map((row) => row.length));
  if (top + values.length > maxRows || range.left + width > maxColumns) {
    throw refuse(400, "badRequest", `Range exceeds grid limits. Max rows: ${maxRows}, max columns: ${maxColumns}`);
  }
  for (const [i, row] of values.entries()) {
    while (rows.length <= top + i) rows.push([]);
    for (const [j, cell] of row.entries()) {
      if (cell !== null) (rows[top + i] ?? [])[range.left + j] = cell;
    }
  }
  const updates = {
    spreadsheetId: id,
    updatedRange: formatRange({ ...range, top, bottom: top + values.length, right: range.left + width }),
    updatedRows: values.length,
    updatedColumns: width,
    updatedCells: values.reduce((sum, row) => sum + row.length, 0),
  };
  return json(isAppend ? { spreadsheetId: id, updates } : updates);
}

function valuesOf(values: unknown): readonly (readonly WrittenValue[])[] {
  const isCell = (cell: unknown): cell is WrittenValue =>
    cell === null || /^(string|number|boolean)$/.test(typeof cell);
  if (
    !Array.isArray(values) ||
    !values.every((row): row is WrittenValue[] => Array.isArray(row) && row.every(isCell))
  ) {
    throw refuse(400, "badRequest", "'values' must be rows of cells");
  }
  return values;
}
