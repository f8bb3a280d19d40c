import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";

/** A request that is over, as it is noted. */
export interface RequestNote {
  /** Monotonic time when its head was read. */
  readonly sinceMs: number;
  readonly endMs: number;
  readonly ref: RequestSubject;
  readonly method: string;
  /** The path without secrets; what follows `?` is not kept. */
  readonly path: string;
  readonly status: number;
  readonly errorCode: string;
  /** Milliseconds; 0 if it was never sent. */
  readonly addedMs: number;
  readonly attempts: number;
  readonly up: number;
  readonly down: number;
  readonly keyId: string;
  readonly traceId: string;
  readonly isTunnel: boolean;
}

export type RequestSubject = Pick<ConnectionRef, "environment" | "integration" | "id">;

/** A request that is kept. */
export interface RingEntry extends RequestNote {
  /** Counts from 1. */
  readonly number: number;
  readonly hasQuery: boolean;
}

/**
 * The last requests, in memory that is allocated once. Paths are copied as bytes: a part of a text would keep the whole
 * head of its request.
 */
export class RequestRing {
  readonly size: number;
  /** Number of the newest request. */
  newest = 0;
  readonly #paths: Buffer;
  readonly #pathLengths: Uint8Array;
  readonly #hasQuery: Uint8Array;
  /** For each request: since, end, added, up, down. */
  readonly #numbers: Float64Array;
  readonly #statuses: Uint16Array;
  readonly #attempts: Uint16Array;
  readonly #isTunnel: Uint8Array;
  readonly #refs: RequestSubject[];
  readonly #methods: string[];
  readonly #errorCodes: string[];
  readonly #keyIds: string[];
  readonly #traceIds: string[];

  constructor(size: number) {
    this.size = size;
    this.#paths = Buffer.alloc(size * pathBytes);
    this.#pathLengths = new Uint8Array(size);
    this.#hasQuery = new Uint8Array(size);
    this.#numbers = new Float64Array(size * numbersEach);
    this.#statuses = new Uint16Array(size);
    this.#attempts = new Uint16Array(size);
    this.#isTunnel = new Uint8Array(size);
    this.#refs = Array.from({ length: size }, () => nobody);
    this.#methods = texts(size);
    this.#errorCodes = texts(size);
    this.#keyIds = texts(size);
    this.#traceIds = texts(size);
  }

  add(request: RequestNote): void {
    const at = this.newest % this.size;
    this.newest += 1;
    const { path } = request;
    const query = path.indexOf("?");
    const length = Math.min(query === -1 ? path.length : query, pathBytes);
    this.#pathLengths[at] = length;
    this.#hasQuery[at] = query === -1 ? 0 : 1;
    // Faster than `Buffer.write` for usual paths, which are ASCII.
    const start = at * pathBytes;
    for (let i = 0; i < length; i += 1) this.#paths[start + i] = path.charCodeAt(i);
    const first = at * numbersEach;
    const numbers = this.#numbers;
    numbers[first] = request.sinceMs;
    numbers[first + 1] = request.endMs;
    numbers[first + 2] = request.addedMs;
    numbers[first + 3] = request.up;
    numbers[first + 4] = request.down;
    this.#statuses[at] = request.status;
    this.#attempts[at] = request.attempts;
    this.#isTunnel[at] = request.isTunnel ? 1 : 0;
    this.#refs[at] = request.ref;
    this.#methods[at] = request.method;
    this.#errorCodes[at] = request.errorCode;
    this.#keyIds[at] = request.keyId;
    this.#traceIds[at] = request.traceId;
  }

  /** Number of the oldest request that is kept; `newest + 1` if none is. */
  get oldest(): number {
    return Math.max(1, this.newest - this.size + 1);
  }

  /** Returns the environment of a kept request, without the rest. */
  environmentOf(number: number): string {
    return this.#refs[(number - 1) % this.size]?.environment ?? "";
  }

  read(number: number): RingEntry {
    const at = (number - 1) % this.size;
    const first = at * numbersEach;
    const [sinceMs = 0, endMs = 0, addedMs = 0, up = 0, down = 0] = this.#numbers.subarray(first, first + numbersEach);
    const start = at * pathBytes;
    const length = this.#pathLengths[at] ?? 0;
    return {
      number,
      sinceMs,
      endMs,
      addedMs,
      up,
      down,
      path: this.#paths.toString("latin1", start, start + length) + (length === pathBytes ? "…" : ""),
      hasQuery: this.#hasQuery[at] === 1,
      status: this.#statuses[at] ?? 0,
      attempts: this.#attempts[at] ?? 0,
      isTunnel: this.#isTunnel[at] === 1,
      ref: this.#refs[at] ?? nobody,
      method: this.#methods[at] ?? "",
      errorCode: this.#errorCodes[at] ?? "",
      keyId: this.#keyIds[at] ?? "",
      traceId: this.#traceIds[at] ?? "",
    };
  }
}

/** Bytes of a path that are kept. A length fits into a byte. */
const pathBytes = 250;
const numbersEach = 5;
const nobody: RequestSubject = { environment: "", integration: "", id: "" };
const texts = (size: number) => Array.from({ length: size }, () => "");
