import { base64, base64url, fromBase64, fromHex, fromLatin1, fromUtf8, hex, latin1, utf8 } from "./text.ts";

/** Encoders and decoders by Node's names for encodings. */
const codecs: Readonly<Record<string, readonly [(bytes: Uint8Array) => string, (text: string) => Uint8Array]>> = {
  utf8: [fromUtf8, utf8],
  "utf-8": [fromUtf8, utf8],
  base64: [base64, fromBase64],
  base64url: [base64url, fromBase64],
  hex: [hex, fromHex],
  latin1: [latin1, fromLatin1],
  binary: [latin1, fromLatin1],
  ascii: [latin1, fromLatin1],
};

function codecFor(encoding: unknown) {
  const found = codecs[String(encoding ?? "utf8").toLowerCase()];
  if (found === undefined) throw new TypeError(`the Buffer encoding "${String(encoding)}" is not supported in scripts`);
  return found;
}

/** A subset of Node's Buffer: conversion between text and bytes in the usual encodings. */
export class Buffer extends Uint8Array<ArrayBuffer> {
  // biome-ignore lint/suspicious/noExplicitAny: Uint8Array.from has another shape, and so had Node's.
  static override from(given: any, encoding?: any): Buffer {
    if (typeof given === "string") return Buffer.#of(codecFor(encoding)[1](given));
    if (given instanceof ArrayBuffer) return new Buffer(given);
    if (ArrayBuffer.isView(given)) return Buffer.#of(new Uint8Array(given.buffer, given.byteOffset, given.byteLength));
    const { type, data } = (given ?? {}) as { type?: unknown; data?: unknown };
    return Buffer.#of(type === "Buffer" && Array.isArray(data) ? data : Array.from(given as Iterable<number>));
  }

  static #of(bytes: ArrayLike<number>): Buffer {
    const made = new Buffer(new ArrayBuffer(bytes.length));
    made.set(bytes);
    return made;
  }

  static alloc(size: number, fill = 0): Buffer {
    return new Buffer(new ArrayBuffer(size)).fill(fill);
  }

  static isBuffer(value: unknown): value is Buffer {
    return value instanceof Buffer;
  }

  static byteLength(given: string | ArrayBufferView | ArrayBuffer, encoding?: string): number {
    return typeof given === "string" ? codecFor(encoding)[1](given).length : given.byteLength;
  }

  static concat(list: readonly Uint8Array[]): Buffer {
    const made = new Buffer(new ArrayBuffer(list.reduce((sum, one) => sum + one.length, 0)));
    let at = 0;
    for (const one of list) {
      made.set(one, at);
      at += one.length;
    }
    return made;
  }

  override toString(encoding?: unknown): string {
    return codecFor(encoding)[0](this);
  }

  toJSON(): { type: "Buffer"; data: number[] } {
    return { type: "Buffer", data: Array.from(this) };
  }

  equals(other: Uint8Array): boolean {
    return this.length === other.length && this.every((byte, i) => byte === other[i]);
  }
}
