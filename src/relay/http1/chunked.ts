/** Decodes a chunked body (RFC 9112, 7.1), strictly, wherever the reads were cut. */
export interface ChunkDecoder {
  /**
   * Calls back with each piece of content. Returns the number of bytes that belonged to the body once the body has
   * ended, undefined while more must follow, and -1 for malformed chunks.
   */
  decode(bytes: Buffer, onContent: (content: Buffer) => void): number | undefined;
  /** Name, value, name, value; complete once the body has ended. */
  readonly trailers: readonly string[];
}

/** Limits the size of a chunk to 52 bits. */
const maxSizeDigits = 13;
const maxLineBytes = 4 * 1024;
const maxTrailerBytes = 16 * 1024;
const trailerLine = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*$/;
const CR = 13;
const LF = 10;
const semicolon = 59;

const states = { size: 0, extension: 1, sizeLf: 2, content: 3, contentCr: 4, contentLf: 5, trailer: 6, trailerLf: 7 };

export function createChunkDecoder(): ChunkDecoder {
  let state = states.size;
  let left = 0;
  let digits = 0;
  let lineBytes = 0;
  let line = "";
  let trailerBytes = 0;
  const trailers: string[] = [];

  /** Returns false for a malformed size. */
  function takeSize(byte: number): boolean {
    const digit = hexDigit(byte);
    if (digit >= 0) {
      left = left * 16 + digit;
      digits += 1;
      return digits <= maxSizeDigits;
    }
    if (digits === 0) return false;
    if (byte === CR) state = states.sizeLf;
    else if (byte === semicolon) state = states.extension;
    else return false;
    return true;
  }

  function takeExtension(byte: number): boolean {
    lineBytes += 1;
    if (byte === CR) state = states.sizeLf;
    return byte !== LF && lineBytes <= maxLineBytes;
  }

  function takeTrailer(byte: number): boolean {
    trailerBytes += 1;
    if (byte === CR) state = states.trailerLf;
    else line += String.fromCharCode(byte);
    return byte !== LF && trailerBytes <= maxTrailerBytes;
  }

  function endTrailerLine(): "ended" | "more" | "malformed" {
    if (line === "") return "ended";
    if (!trailerLine.test(line)) return "malformed";
    const colon = line.indexOf(":");
    trailers.push(line.slice(0, colon), line.slice(colon + 1).trim());
    line = "";
    state = states.trailer;
    return "more";
  }

  return {
    trailers,
    decode(bytes, onContent) {
      for (let at = 0; at < bytes.length; ) {
        if (state === states.content) {
          const take = Math.min(left, bytes.length - at);
          onContent(bytes.subarray(at, at + take));
          at += take;
          left -= take;
          if (left === 0) state = states.contentCr;
          continue;
        }
        const byte = bytes[at] ?? 0;
        at += 1;
        if (state === states.size) {
          if (!takeSize(byte)) return -1;
        } else if (state === states.extension) {
          if (!takeExtension(byte)) return -1;
        } else if (state === states.sizeLf) {
          if (byte !== LF) return -1;
          state = left === 0 ? states.trailer : states.content;
          digits = 0;
          lineBytes = 0;
        } else if (state === states.contentCr) {
          if (byte !== CR) return -1;
          state = states.contentLf;
        } else if (state === states.contentLf) {
          if (byte !== LF) return -1;
          state = states.size;
        } else if (state === states.trailer) {
          if (!takeTrailer(byte)) return -1;
        } else {
          const outcome = byte === LF ? endTrailerLine() : "malformed";
          if (outcome === "malformed") return -1;
          if (outcome === "ended") return at;
        }
      }
      return undefined;
    },
  };
}

function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}
