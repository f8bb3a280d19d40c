import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { stringify } from "yaml";
import { escapeControl, escapeControlInLines } from "./escape-control.ts";
import type { Paint } from "./paint.ts";
import { plainJson } from "./plain-json.ts";
import { type Column, createTable, type TableLayout, textOf } from "./table.ts";
import { type Terminal, write } from "./terminal.ts";

/** Formats of `--output`. */
export const outputFormats = ["table", "wide", "json", "yaml", "name"] as const;
export type OutputFormat = (typeof outputFormats)[number];

/** Output of a command: tables and `key: value` for people; with `--json`, JSON with proto field names. */
export interface Output {
  readonly json: boolean;
  readonly paint: Paint;
  /** The layout of tables. */
  readonly layout: TableLayout;
  /** Prints an object. */
  one<S extends DescMessage>(schema: S, message: MessageShape<S>): Promise<void>;
  /** Prints a list, page by page; as JSON, one object per line. */
  many<S extends DescMessage>(list: ListOutput<S>): Promise<void>;
  /** Reports a completed action: the response for programs, a sentence for people. */
  done<S extends DescMessage>(schema: S, message: MessageShape<S>, sentence: string): Promise<void>;
  /** Prints a JSON document that is not a message, such as metadata. */
  document(value: unknown): Promise<void>;
  /** Prints a line of output for people. */
  line(text: string): Promise<void>;
  /** Prints a note for people on stderr. */
  note(text: string): Promise<void>;
}

export interface ListOutput<S extends DescMessage> {
  readonly schema: S;
  readonly columns: readonly Column<MessageShape<S>>[];
  readonly pages: AsyncIterable<readonly MessageShape<S>[]>;
  /** Text for an empty list: `no connections`. */
  readonly none: string;
}

interface OutputOptions {
  /** Same as the format `json`. */
  readonly json: boolean;
  readonly paint: Paint;
  readonly format?: OutputFormat | undefined;
}

export function createOutput(terminal: Terminal, { json: isJson, paint, format = "table" }: OutputOptions): Output {
  const { stdout, stderr, isTerminal, columns: width } = terminal;
  const json = isJson || format === "json";
  const layout = isTerminal && format === "table" ? { width, brief: true } : { brief: false };
  // Escaping control characters does not change the meaning of JSON.
  const writeJson = (text: string) => write(stdout, `${escapeControlInLines(text)}\n`);

  const one = async <S extends DescMessage>(schema: S, message: MessageShape<S>) => {
    if (json) return writeJson(JSON.stringify(plainJson(schema, message)));
    // YAML is plain `key: value` for simple objects, and valid input for `providers update`.
    return write(stdout, escapeControlInLines(stringify(plainJson(schema, message), { lineWidth: 0 })));
  };
  const note = (text: string) => write(stderr, `${escapeControl(text)}\n`);

  return {
    json,
    paint,
    layout,
    one,
    async many({ schema, columns, pages, none }) {
      const table = createTable(columns, paint, layout);
      const [first] = columns;
      const names = (page: readonly MessageShape<typeof schema>[]) =>
        page.map((item) => `${escapeControl(first === undefined ? "" : textOf(first, item))}\n`).join("");
      let empty = true;
      for await (const page of pages) {
        if (page.length === 0) continue;
        empty = false;
        const plain = () => page.map((item) => plainJson(schema, item));
        if (json)
          await writeJson(
            plain()
              .map((item) => JSON.stringify(item))
              .join("\n"),
          );
        else if (format === "yaml") await write(stdout, escapeControlInLines(stringify(plain(), { lineWidth: 0 })));
        else if (format === "name") await write(stdout, names(page));
        else await write(stdout, table.draw(page));
      }
      if (empty && !json) await note(none);
    },
    async done(schema, message, sentence) {
      if (json) return writeJson(JSON.stringify(plainJson(schema, message)));
      return write(stdout, `${escapeControl(sentence)}\n`);
    },
    document: (value) => writeJson(json ? JSON.stringify(value) : JSON.stringify(value, null, 2)),
    line: (text) => write(stdout, `${text}\n`),
    note,
  };
}
