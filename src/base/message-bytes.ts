import { type DescMessage, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { type MessageWriter, messageWriters } from "../gen/latchkey/stored/v1/stored_writers.ts";

/**
 * Returns the encoder of a message type. Types that are stored with every notification have a generated encoder, which
 * takes a third of the time of `toBinary` and allocates no buffer but the result.
 */
export function bytesFor<S extends DescMessage>(schema: S): (message: MessageShape<S>) => Uint8Array {
  const written: Readonly<Record<string, unknown>> = messageWriters;
  const write = written[schema.typeName] as ((to: MessageWriter, message: MessageShape<S>) => void) | undefined;
  if (write === undefined) return (message) => toBinary(schema, message);
  return (message) => {
    page.at = 0;
    write(page, message);
    return page.taken();
  };
}

/**
 * Returns the encoder of a stream's messages that are sent together: each in an envelope as gRPC and Connect use it,
 * with flags (none) and its length.
 */
export function envelopesFor<S extends DescMessage>(schema: S): (messages: Iterable<MessageShape<S>>) => Uint8Array {
  const written: Readonly<Record<string, unknown>> = messageWriters;
  const write = written[schema.typeName] as ((to: MessageWriter, message: MessageShape<S>) => void) | undefined;
  if (write === undefined) throw new Error(`${schema.typeName} has no generated encoder`);
  return (messages) => {
    page.at = 0;
    for (const message of messages) {
      const from = page.beginEnvelope();
      write(page, message);
      page.endEnvelope(from);
    }
    return page.taken();
  };
}

/** A larger buffer is freed after its message was copied. */
const pageBytes = 64 * 1024;
/** Length of a 64-bit varint. */
const mostVarintBytes = 10;
/** Flags, and the length of the message. */
const envelopeHeadBytes = 5;
/** Up to this length, checking each character is faster than a call of the UTF-8 encoder. */
const shortChars = 40;
/** A UTF-16 unit has at most three UTF-8 bytes. */
const mostUnitBytes = 3;

/** Shared by all messages: each is encoded synchronously. */
class BufferPage implements MessageWriter {
  at = 0;
  #bytes = Buffer.allocUnsafeSlow(pageBytes);

  text(tag: number, value: string): void {
    const { length } = value;
    this.#makeRoom(2 * mostVarintBytes + length * mostUnitBytes);
    this.#varint(tag);
    if (length <= shortChars && this.#ascii(value)) return;
    // Assumes one byte per unit; if the text turns out to be longer, its bytes are moved.
    const from = this.at + varintBytes(length);
    const written = this.#bytes.write(value, from, "utf8");
    const textAt = this.at + varintBytes(written);
    if (textAt !== from) this.#bytes.copyWithin(textAt, from, from + written);
    this.#varint(written);
    this.at = textAt + written;
  }

  bytes(tag: number, value: Uint8Array): void {
    this.#makeRoom(2 * mostVarintBytes + value.length);
    this.#varint(tag);
    this.#varint(value.length);
    this.#bytes.set(value, this.at);
    this.at += value.length;
  }

  flag(tag: number, value: boolean): void {
    this.unsigned(tag, value ? 1 : 0);
  }

  unsigned(tag: number, value: number): void {
    if (value >>> 0 !== value) throw new RangeError(`${value} is no unsigned number of 32 bits`);
    this.#makeRoom(2 * mostVarintBytes);
    this.#varint(tag);
    this.#varint(value);
  }

  signed(tag: number, value: number): void {
    if ((value | 0) !== value) throw new RangeError(`${value} is no number of 32 bits`);
    if (value < 0) {
      this.signedLong(tag, BigInt(value));
      return;
    }
    this.unsigned(tag, value);
  }

  unsignedLong(tag: number, value: bigint): void {
    this.#makeRoom(2 * mostVarintBytes);
    this.#varint(tag);
    const low = Number(value);
    if (low >= 0 && Number.isSafeInteger(low)) this.#varint(low);
    else this.#longVarint(value);
  }

  signedLong(tag: number, value: bigint): void {
    this.unsignedLong(tag, value < 0n ? BigInt.asUintN(64, value) : value);
  }

  double(tag: number, value: number): void {
    this.#makeRoom(2 * mostVarintBytes);
    this.#varint(tag);
    this.at = this.#bytes.writeDoubleLE(value, this.at);
  }

  /** Leaves one byte for the length, and makes room if the length needs more. */
  begin(tag: number): number {
    this.#makeRoom(2 * mostVarintBytes);
    this.#varint(tag);
    this.at += 1;
    return this.at;
  }

  end(from: number): void {
    const length = this.at - from;
    const more = varintBytes(length) - 1;
    if (more > 0) {
      this.#makeRoom(more);
      this.#bytes.copyWithin(from + more, from, this.at);
    }
    this.at = from - 1;
    this.#varint(length);
    this.at += length;
  }

  beginEnvelope(): number {
    this.#makeRoom(envelopeHeadBytes);
    this.at += envelopeHeadBytes;
    return this.at;
  }

  endEnvelope(from: number): void {
    this.#bytes[from - envelopeHeadBytes] = 0;
    this.#bytes.writeUInt32BE(this.at - from, from - envelopeHeadBytes + 1);
  }

  unknown(fields: Parameters<MessageWriter["unknown"]>[0]): void {
    for (const { no, wireType, data } of fields) {
      this.#makeRoom(mostVarintBytes + data.length);
      this.#varint(((no << 3) | wireType) >>> 0);
      this.#bytes.set(data, this.at);
      this.at += data.length;
    }
  }

  /** Returns a copy of the encoded bytes. */
  taken(): Uint8Array {
    const bytes = Buffer.allocUnsafe(this.at);
    this.#bytes.copy(bytes, 0, 0, this.at);
    if (this.#bytes.length > pageBytes) this.#bytes = Buffer.allocUnsafeSlow(pageBytes);
    return bytes;
  }

  #ascii(value: string): boolean {
    const bytes = this.#bytes;
    const { length } = value;
    let { at } = this;
    bytes[at++] = length;
    for (let i = 0; i < length; i += 1) {
      const code = value.charCodeAt(i);
      if (code > 0x7f) return false;
      bytes[at++] = code;
    }
    this.at = at;
    return true;
  }

  #varint(value: number): void {
    const bytes = this.#bytes;
    let left = value;
    while (left > 0x7f) {
      bytes[this.at++] = (left % 0x80) | 0x80;
      left = Math.floor(left / 0x80);
    }
    bytes[this.at++] = left;
  }

  #longVarint(value: bigint): void {
    const bytes = this.#bytes;
    let left = BigInt.asUintN(64, value);
    for (; left > 0x7fn; left >>= 7n) bytes[this.at++] = Number(left & 0x7fn) | 0x80;
    bytes[this.at++] = Number(left);
  }

  #makeRoom(bytes: number): void {
    const wanted = this.at + bytes;
    if (wanted <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(wanted, 2 * this.#bytes.length));
    this.#bytes.copy(larger, 0, 0, this.at);
    this.#bytes = larger;
  }
}

const page = new BufferPage();

const varintBytes = (value: number): number =>
  value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : value < 0x1000_0000 ? 4 : 5;
