import { flags, frame, literal, uint32 } from "../../cases/control-plane/frames.ts";
import { randomSeed, seedOf } from "../runner/seeded.ts";

/** Random messages over HTTP/2, mostly good ones, for the comparisons of our framing with nghttp2. */

/** What is special to requests, or to responses. */
interface MessageRules {
  /** Names and values of good fields, and one field in how many is an odd one. */
  readonly names: readonly string[];
  readonly values: readonly string[];
  readonly oddOneIn: number;
  /** Odd fields besides those of every message. */
  readonly odd: (random: Random) => readonly (() => Buffer)[];
  /** The space from which a frame beside the message is drawn: five of these numbers are a frame. */
  readonly asideOneIn: number;
  /** The least increment of a WINDOW_UPDATE; 0 breaks a rule. */
  readonly leastIncrement: number;
  /** Frames of odd streams are of one below this. */
  readonly streams: number;
}

export interface Random {
  /** A whole number below this one. */
  readonly int: (below: number) => number;
  readonly some: <T>(list: readonly T[]) => T;
}

export interface RandomMessages extends Random {
  /** How many messages to compare. */
  readonly rounds: number;
  fields(most: number): Buffer[];
  /** A field block: HEADERS, and sometimes CONTINUATION. */
  block(stream: number, payload: Buffer, isEnd: boolean): Buffer[];
  /** Adds a message: head, content and trailers, with other frames between them. Returns whether it has trailers. */
  message(frames: Buffer[], message: Message): boolean;
  /** Adds a frame that is no part of the message, sometimes. */
  aside(frames: Buffer[], stream: number): void;
  /** Overwrites a byte, one time in six. */
  corrupt(frames: readonly Buffer[]): void;
}

interface Message {
  readonly stream: number;
  readonly isHeadOnly: boolean;
  readonly head: Buffer;
}

/**
 * A linear congruential generator. Without LATCHKEY_FUZZ, every run is the same; with it, every run is another one,
 * unless LATCHKEY_FUZZ_SEED names it.
 */
function createRandom(isLong: boolean): Random {
  const isDrawn = isLong && process.env["LATCHKEY_FUZZ_SEED"] === undefined;
  let state = isDrawn ? randomSeed() : seedOf("LATCHKEY_FUZZ_SEED") >>> 0;
  if (isLong) process.stdout.write(`fuzz: LATCHKEY_FUZZ_SEED=${state}\n`);
  const int = (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  return { int, some: <T>(list: readonly T[]): T => list[int(list.length)] as T };
}

/** `LATCHKEY_FUZZ=1000000` compares more than `usualRounds`: two milliseconds each. */
export function createRandomMessages(usualRounds: number, rules: MessageRules): RandomMessages {
  const asked = process.env["LATCHKEY_FUZZ"];
  const random = createRandom(asked !== undefined);
  const { int, some } = random;
  const { names, values, oddOneIn, asideOneIn, leastIncrement, streams } = rules;
  const odd: readonly (() => Buffer)[] = [
    () => literal("Upper", "x"),
    () => literal("a b", "x"),
    () => literal("x", "a\nb"),
    () => literal("connection", "close"),
    () => literal("transfer-encoding", "chunked"),
    ...rules.odd(random),
    () => Buffer.from([0x80 | int(128)]),
    () => Buffer.from([0x40, 1, 97, 1, 98]),
    () => Buffer.from([0x20 | int(32)]),
  ];
  const field = (): Buffer => (int(oddOneIn) === 0 ? some(odd)() : literal(some(names), some(values)));
  const fields = (most: number) => Array.from({ length: int(most + 1) }, field);

  function block(stream: number, payload: Buffer, isEnd: boolean): Buffer[] {
    const end = isEnd ? flags.endStream : 0;
    if (int(4) > 0) return [frame("headers", { stream, flags: flags.endHeaders | end, payload })];
    const at = int(payload.length + 1);
    return [
      frame("headers", { stream, flags: end, payload: payload.subarray(0, at) }),
      frame("continuation", { stream, flags: flags.endHeaders, payload: payload.subarray(at) }),
    ];
  }

  function aside(frames: Buffer[], stream: number): void {
    const lucky = int(asideOneIn);
    if (lucky === 0) frames.push(frame("ping", { payload: Buffer.alloc(8) }));
    else if (lucky === 1) frames.push(frame("windowUpdate", { payload: uint32(leastIncrement + int(3)) }));
    else if (lucky === 2) frames.push(frame("reset", { stream, payload: uint32(int(12)) }));
    else if (lucky === 3) frames.push(frame("settings", { payload: Buffer.from([0, int(7), 0, 0, int(256), 0]) }));
    else if (lucky === 4) {
      const type = some(["data", "headers", "priority", "goaway"] as const);
      frames.push(frame(type, { stream: int(streams), payload: Buffer.alloc(int(9)) }));
    }
  }

  return {
    ...random,
    rounds: Number(asked ?? usualRounds),
    fields,
    block,
    aside,
    message(frames, { stream, isHeadOnly, head }) {
      frames.push(...block(stream, head, isHeadOnly));
      aside(frames, stream);
      if (isHeadOnly) return false;
      const pieces = int(3);
      for (let i = 0; i < pieces; i += 1) {
        const isLast = i === pieces - 1 && int(2) === 0;
        const isPadded = int(5) === 0;
        const payload = isPadded ? Buffer.from([int(4), 97, 98, 99]) : Buffer.from(some(["", "abc", "hello"]));
        frames.push(frame("data", { stream, flags: (isPadded ? 8 : 0) | (isLast ? 1 : 0), payload }));
        aside(frames, stream);
        if (isLast) return false;
      }
      frames.push(...block(stream, Buffer.concat(fields(2)), int(8) > 0));
      return true;
    },
    corrupt(frames) {
      if (int(6) > 0) return;
      const one: Buffer = some(frames);
      if (one.length > 0) one.writeUInt8(int(256), int(one.length));
    },
  };
}

/** Our framing leaves blanks at the ends of a field out, as HTTP/1.1 does. */
export const withoutBlanks = (text: string): string => text.replace(/^[\t ]+|[\t ]+$/g, "");
