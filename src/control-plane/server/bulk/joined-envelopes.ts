import { setImmediate } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";

/** What precedes each message of a stream, in all three protocols: flags, and the length of the message. */
export const envelopeHeadBytes = 5;

/** Tag of the only field of `BytesValue`. */
const bytesTag = 0x0a;
/** Maximum number of messages that are joined. */
const mostJoined = 256;

/**
 * Joins the messages of a stream that arrive together: each result is one message `BytesValue`, which holds them with
 * their envelopes. So the library, whose work for each message exceeds the message's own, sees few messages.
 */
export async function* joinedEnvelopes(
  body: AsyncIterable<Uint8Array>,
  maxMessageBytes: number,
): AsyncGenerator<Uint8Array> {
  /** The start of an envelope whose rest has not arrived. */
  let parts: Uint8Array[] = [];
  let held = 0;
  let needed = envelopeHeadBytes;
  for await (const chunk of body) {
    parts.push(chunk);
    held += chunk.length;
    // The parts of a large message are joined once its head is there, and once more when it is whole.
    if (held < needed) continue;
    const bytes = parts.length === 1 ? chunk : Buffer.concat(parts, held);
    const { groups, rest, wanted } = envelopesIn(bytes, maxMessageBytes);
    for (const { from, to, flags } of groups) yield enveloped(bytes.subarray(from, to), flags);
    if (wanted > maxMessageBytes + envelopeHeadBytes) throw tooLarge(wanted - envelopeHeadBytes, maxMessageBytes);
    parts = rest === bytes.length ? [] : [bytes.subarray(rest)];
    held = bytes.length - rest;
    needed = wanted;
    // Clients send each message by itself: what comes within a tick is read at once.
    await setImmediate();
  }
  if (held > 0) throw new ConnectError("protocol error: incomplete envelope", Code.InvalidArgument);
}

/** Envelopes that follow each other and have the same flags. */
interface EnvelopeGroup {
  readonly from: number;
  readonly to: number;
  readonly flags: number;
}

interface EnvelopeScan {
  readonly groups: readonly EnvelopeGroup[];
  /** Where the first envelope begins that is not whole. */
  readonly rest: number;
  /** Length of that envelope, as far as it is known. */
  readonly wanted: number;
}

function envelopesIn(bytes: Uint8Array, maxMessageBytes: number): EnvelopeScan {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const groups: EnvelopeGroup[] = [];
  let wanted = envelopeHeadBytes;
  let from = 0;
  let at = 0;
  let joined = 0;
  const end = () => {
    if (joined > 0) groups.push({ from, to: at, flags: 0 });
    from = at;
    joined = 0;
  };
  while (at + envelopeHeadBytes <= bytes.length) {
    const flags = view.getUint8(at);
    const length = envelopeHeadBytes + view.getUint32(at + 1);
    if (length > maxMessageBytes + envelopeHeadBytes || at + length > bytes.length) {
      wanted = length;
      break;
    }
    if (flags === 0) {
      at += length;
      joined += 1;
      if (joined === mostJoined) end();
    } else {
      // Compressed, or an end: the library decides what becomes of it.
      end();
      at += length;
      groups.push({ from, to: at, flags });
      from = at;
    }
  }
  end();
  return { groups, rest: at, wanted };
}

/** Returns an envelope with one message, `BytesValue`. */
function enveloped(bytes: Uint8Array, flags: number): Uint8Array {
  const lengthBytes = varintBytes(bytes.length);
  const whole = Buffer.allocUnsafe(envelopeHeadBytes + 1 + lengthBytes + bytes.length);
  whole[0] = flags;
  whole.writeUInt32BE(whole.length - envelopeHeadBytes, 1);
  let at = envelopeHeadBytes;
  whole[at++] = bytesTag;
  let left = bytes.length;
  for (; left > 0x7f; left >>>= 7) whole[at++] = (left & 0x7f) | 0x80;
  whole[at++] = left;
  whole.set(bytes, at);
  return whole;
}

/** The library's own error. */
const tooLarge = (length: number, maxMessageBytes: number) =>
  new ConnectError(
    `message size ${length} is larger than configured readMaxBytes ${maxMessageBytes}`,
    Code.ResourceExhausted,
  );

/**
 * Undoes the join in a response: takes messages that hold others, with their envelopes, out of their own. Passes on
 * what is no message, such as the end of the stream. The library yields one envelope at a time.
 */
export function separatedEnvelopes(body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      const chunks = body[Symbol.asyncIterator]();
      const step = async (next: Promise<IteratorResult<Uint8Array>> | undefined) => {
        const found = await next;
        if (found === undefined || found.done === true) return { done: true as const, value: undefined };
        return { done: false as const, value: contentOf(found.value) };
      };
      return {
        next: () => step(chunks.next()),
        // The producer learns that the client does not read.
        throw: (error) => step(chunks.throw?.(error)),
        return: (value) => step(chunks.return?.(value)),
      };
    },
  };
}

function contentOf(envelope: Uint8Array): Uint8Array {
  if (envelope[0] !== 0 || envelope.length === envelopeHeadBytes) return envelope;
  let at = envelopeHeadBytes + 1;
  while ((envelope[at] ?? 0) > 0x7f) at += 1;
  return envelope.subarray(at + 1);
}

const varintBytes = (value: number): number =>
  value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : value < 0x1000_0000 ? 4 : 5;
