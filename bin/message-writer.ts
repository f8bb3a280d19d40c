// Part of every generated encoder: encoders.ts copies it.
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** Receives the fields in order, each with its tag: field number and wire type. */
export interface MessageWriter {
  text(tag: number, value: string): void;
  bytes(tag: number, value: Uint8Array): void;
  flag(tag: number, value: boolean): void;
  unsigned(tag: number, value: number): void;
  signed(tag: number, value: number): void;
  unsignedLong(tag: number, value: bigint): void;
  signedLong(tag: number, value: bigint): void;
  double(tag: number, value: number): void;
  /** Starts a nested message; returns the argument for `end`. */
  begin(tag: number): number;
  end(from: number): void;
  unknown(fields: readonly { readonly no: number; readonly wireType: number; readonly data: Uint8Array }[]): void;
}

export function writeEntry(w: MessageWriter, tag: number, key: string, value: string): void {
  const from = w.begin(tag);
  w.text(10, key);
  w.text(18, value);
  w.end(from);
}

export function writeStruct(w: MessageWriter, m: JsonObject): void {
  for (const [key, value] of Object.entries(m)) {
    const from = w.begin(10);
    w.text(10, key);
    const at = w.begin(18);
    writeValue(w, value);
    w.end(at);
    w.end(from);
  }
}

function writeValue(w: MessageWriter, m: JsonValue): void {
  if (m === null) w.signed(8, 0);
  else if (typeof m === "number") w.double(17, m);
  else if (typeof m === "string") w.text(26, m);
  else if (typeof m === "boolean") w.flag(32, m);
  else {
    const from = w.begin(Array.isArray(m) ? 50 : 42);
    if (Array.isArray(m)) {
      for (const one of m) {
        const at = w.begin(10);
        writeValue(w, one);
        w.end(at);
      }
    } else writeStruct(w, m);
    w.end(from);
  }
}
