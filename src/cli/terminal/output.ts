import { type DescMessage, type MessageShape, toJson, toJsonString } from "@bufbuild/protobuf";
import { stringify } from "yaml";
import { escapeControl, escapeControlInLines } from "./escape-control.ts";
import type { Paint } from "./paint.ts";
import { type Column, createTable } from "./table.ts";
import { type Terminal, write } from "./terminal.ts";

/** Output of a command: tables and `key: value` for people; with `--json`, protobuf's JSON with proto field names. */
export interface Output {
  readonly json: boolean;
  readonly paint: Paint;
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

const jsonOptions = { useProtoFieldName: true } as const;

export function createOutput(
  terminal: Terminal,
  { json, paint }: { readonly json: boolean; readonly paint: Paint },
): Output {
  const { stdout, stderr } = terminal;
  // Escaping control characters does not change the meaning of JSON.
  const writeJson = (text: string) => write(stdout, `${escapeControlInLines(text)}\n`);

  const one = async <S extends DescMessage>(schema: S, message: MessageShape<S>) => {
    if (json) return writeJson(toJsonString(schema, message, jsonOptions));
    // YAML is plain `key: value` for simple objects, and valid input for `providers update`.
    return write(stdout, escapeControlInLines(stringify(toJson(schema, message, jsonOptions), { lineWidth: 0 })));
  };
  const note = (text: string) => write(stderr, `${escapeControl(text)}\n`);

  return {
    json,
    paint,
    one,
    async many({ schema, columns, pages, none }) {
      const table = createTable(columns, paint);
      let empty = true;
      for await (const page of pages) {
        if (page.length === 0) continue;
        empty = false;
        const lines = () => page.map((item) => toJsonString(schema, item, jsonOptions)).join("\n");
        await (json ? writeJson(lines()) : write(stdout, table.draw(page)));
      }
      if (empty && !json) await note(none);
    },
    async done(schema, message, sentence) {
      if (json) return writeJson(toJsonString(schema, message, jsonOptions));
      return write(stdout, `${escapeControl(sentence)}\n`);
    },
    document: (value) => writeJson(json ? JSON.stringify(value) : JSON.stringify(value, null, 2)),
    line: (text) => write(stdout, `${text}\n`),
    note,
  };
}
