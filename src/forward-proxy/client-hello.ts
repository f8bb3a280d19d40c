import { GrowingBytes } from "../base/growing-bytes.ts";

/** What the first bytes of a TLS client say. */
export type ClientHello =
  | { readonly kind: "incomplete" }
  /** Not TLS, or not as RFC 8446 wants it. */
  | { readonly kind: "malformed" }
  /** The host that the client asks for, in lower case; undefined: none. */
  | { readonly kind: "hello"; readonly serverName: string | undefined };

const incomplete: ClientHello = { kind: "incomplete" };
const malformed: ClientHello = { kind: "malformed" };
/** More than any client sends, with room for large keys. */
const maxHelloBytes = 32 * 1024;

const handshakeRecord = 22;
const recordHeaderBytes = 5;
const clientHello = 1;
const messageHeaderBytes = 4;
const serverNameExtension = 0;
const hostNameKind = 0;

/**
 * Reads the server name of a ClientHello (RFC 8446, 4.1.2; RFC 6066, 3), which may be split over several records and
 * come in any pieces. Each byte is looked at once, however small the pieces are.
 */
export class ClientHelloReader {
  readonly #received = new GrowingBytes();
  /** The content of the records so far. */
  readonly #message = new GrowingBytes();
  #at = 0;
  /** Bytes of the current record that have not come. */
  #left = 0;

  /** Everything that came, to be passed on. */
  get received(): Buffer {
    return this.#received.bytes;
  }

  /** Adds what came next. Called until the result is no longer `incomplete`. */
  add(piece: Buffer): ClientHello {
    this.#received.add(piece);
    const { received } = this;
    while (this.#at < received.length) {
      if (this.#left === 0) {
        const length = recordLengthAt(received, this.#at);
        if (length === "malformed") return malformed;
        if (length === "incomplete") break;
        this.#at += recordHeaderBytes;
        this.#left = length;
      }
      const content = received.subarray(this.#at, this.#at + this.#left);
      this.#message.add(content);
      this.#at += content.length;
      this.#left -= content.length;
      const hello = helloIn(this.#message.bytes);
      // What follows is for the server: early data may come in the same piece.
      if (hello.kind !== "incomplete") return hello;
    }
    return received.length < maxHelloBytes ? incomplete : malformed;
  }
}

/** Reads the length of the record that begins at a position. Type, version 3.x and length take five bytes. */
function recordLengthAt(bytes: Buffer, at: number): number | "malformed" | "incomplete" {
  if (bytes[at] !== handshakeRecord) return "malformed";
  if (at + recordHeaderBytes > bytes.length) return "incomplete";
  const length = bytes.readUInt16BE(at + 3);
  return bytes[at + 1] === 3 && length > 0 ? length : "malformed";
}

function helloIn(message: Buffer): ClientHello {
  if (message.length === 0) return incomplete;
  if (message[0] !== clientHello) return malformed;
  if (message.length < messageHeaderBytes) return incomplete;
  const length = message.readUIntBE(1, 3);
  if (length > maxHelloBytes) return malformed;
  if (message.length < messageHeaderBytes + length) return incomplete;
  return nameIn(message.subarray(messageHeaderBytes, messageHeaderBytes + length));
}

/** Skips version, random, session, ciphers and compressions. */
function nameIn(hello: Buffer): ClientHello {
  const reader = new FieldReader(hello);
  reader.skip(2 + 32);
  reader.vector(1);
  reader.vector(2);
  reader.vector(1);
  const extensions = reader.isAtEnd ? Buffer.alloc(0) : reader.vector(2);
  if (extensions === undefined) return malformed;
  let serverName: string | undefined;
  const all = new FieldReader(extensions);
  while (!all.isAtEnd) {
    const type = all.number(2);
    const content = all.vector(2);
    if (type === undefined || content === undefined) return malformed;
    if (type !== serverNameExtension) continue;
    const name = hostNameIn(content);
    if (name === undefined || serverName !== undefined) return malformed;
    serverName = name;
  }
  return { kind: "hello", serverName };
}

function hostNameIn(content: Buffer): string | undefined {
  const names = new FieldReader(content).vector(2);
  if (names === undefined) return undefined;
  const reader = new FieldReader(names);
  const kind = reader.number(1);
  const name = reader.vector(2);
  return kind === hostNameKind && name !== undefined && reader.isAtEnd
    ? name.toString("latin1").toLowerCase()
    : undefined;
}

/** Reads numbers, and bytes that follow their length. */
class FieldReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  skip(length: number): void {
    this.#at = Math.min(this.#bytes.length, this.#at + length);
  }

  number(length: number): number | undefined {
    if (this.#at + length > this.#bytes.length) return undefined;
    const number = this.#bytes.readUIntBE(this.#at, length);
    this.#at += length;
    return number;
  }

  vector(lengthBytes: number): Buffer | undefined {
    const length = this.number(lengthBytes);
    if (length === undefined || this.#at + length > this.#bytes.length) return undefined;
    const bytes = this.#bytes.subarray(this.#at, this.#at + length);
    this.#at += length;
    return bytes;
  }
}
