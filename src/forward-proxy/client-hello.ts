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
export const maxHelloBytes = 32 * 1024;

const handshakeRecord = 22;
const clientHello = 1;
const serverNameExtension = 0;
const hostNameKind = 0;

/** Reads the server name of a ClientHello (RFC 8446, 4.1.2; RFC 6066, 3), which may be split over several records. */
export function readClientHello(bytes: Buffer): ClientHello {
  const message = handshakeIn(bytes);
  if (!Buffer.isBuffer(message)) return message;
  if (message[0] !== clientHello) return malformed;
  if (message.length < 4) return incomplete;
  const length = message.readUIntBE(1, 3);
  if (length > maxHelloBytes) return malformed;
  if (message.length < 4 + length) return incomplete;
  return nameIn(message.subarray(4, 4 + length));
}

/** Joins the content of the records so far. */
function handshakeIn(bytes: Buffer): Buffer | ClientHello {
  const parts: Buffer[] = [];
  for (let at = 0; at + 5 <= bytes.length; ) {
    // Type, version 3.x, length.
    const length = bytes.readUInt16BE(at + 3);
    if (bytes[at] !== handshakeRecord || bytes[at + 1] !== 3 || length === 0) return malformed;
    parts.push(bytes.subarray(at + 5, at + 5 + length));
    at += 5 + length;
  }
  if (bytes.length > 0 && bytes[0] !== handshakeRecord) return malformed;
  const message = Buffer.concat(parts);
  return message.length === 0 ? incomplete : message;
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
