import { type DescMessage, type MessageShape, toJson, toJsonString } from "@bufbuild/protobuf";
import { stringify } from "yaml";
import type { Paint } from "./paint.ts";
import { type Column, createTable } from "./table.ts";
import { type Terminal, write } from "./terminal.ts";
import { visible, visibleLines } from "./visible.ts";

/** What a command answers: tables and `key: value` for a person; with `--json` protobuf's JSON, by its field names. */
export interface Output {
  readonly json: boolean;
  readonly paint: Paint;
  /** One object. */
  one<S extends DescMessage>(schema: S, message: MessageShape<S>): Promise<void>;
  /** A list, page by page; as JSON one object a line. */
  many<S extends DescMessage>(list: ListOutput<S>): Promise<void>;
  /** That something was done: the answer for a program, a sentence for a person. */
  done<S extends DescMessage>(schema: S, message: MessageShape<S>, sentence: string): Promise<void>;
  /** A JSON document that is no message, such as metadata. */
  document(value: unknown): Promise<void>;
  /** A line of the answer, for a person. */
  line(text: string): Promise<void>;
  /** Beside the answer, on stderr: for a person alone. */
  note(text: string): Promise<void>;
}

export interface ListOutput<S extends DescMessage> {
  readonly schema: S;
  readonly columns: readonly Column<MessageShape<S>>[];
  readonly pages: AsyncIterable<readonly MessageShape<S>[]>;
  /** What to call nothing: `no connections`. */
  readonly none: string;
}

const jsonOptions = { useProtoFieldName: true } as const;

export function createOutput(
  terminal: Terminal,
  { json, paint }: { readonly json: boolean; readonly paint: Paint },
): Output {
  const { stdout, stderr } = terminal;
  // Escaping what a terminal acts upon changes nothing that JSON says.
  const writeJson = (text: string) => write(stdout, `${visibleLines(text)}\n`);

  const one = async <S extends DescMessage>(schema: S, message: MessageShape<S>) => {
    if (json) return writeJson(toJsonString(schema, message, jsonOptions));
    // YAML is `key: value` where that says it all, and what `providers update` reads where it does not.
    return write(stdout, visibleLines(stringify(toJson(schema, message, jsonOptions), { lineWidth: 0 })));
  };
  const note = (text: string) => write(stderr, `${visible(text)}\n`);

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
      return write(stdout, `${visible(sentence)}\n`);
    },
    document: (value) => writeJson(json ? JSON.stringify(value) : JSON.stringify(value, null, 2)),
    line: (text) => write(stdout, `${text}\n`),
    note,
  };
}
