import type { Socket } from "node:net";
import { lowerCase } from "../../base/http/field-name.ts";
import { writeText } from "../../base/node/text-writes.ts";
import { takesMore } from "../backpressure.ts";
import type { Framing, ResponseHead } from "../http1/response-head.ts";
import { linksIn, trailersIn } from "./client-side.ts";
import { LentBuffers } from "./lent-buffers.ts";

/** Limits the idle time between the requests of a connection. */
export const idleMs = 60_000;
/** Content up to this size is written as text, in one write with the text that precedes the content. */
export const smallBytes = 16 * 1024;
/** Same header as `node:http` sends: clients that read the timeout avoid connections that are about to close. */
const keepsAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${idleMs / 1_000}\r\n`;
const closes = "Connection: close\r\n";
const chunked = "Transfer-Encoding: chunked\r\n";
/** The last lines of response heads. */
const ends = { closes: `${closes}\r\n`, keepsAlive: `${keepsAlive}\r\n` };
const chunkedEnds = { closes: `${closes}${chunked}\r\n`, keepsAlive: `${keepsAlive}${chunked}\r\n` };

/**
 * The response half of a client connection: collects text, and writes it in as few pieces as possible. A base class
 * rather than an object of its own: a request looks at fewer places in memory.
 */
export abstract class ClientResponse {
  readonly socket: Socket;
  protected status = 200;
  protected hasBegun = false;
  protected isChunked = false;
  /** The connection closes after this response. */
  protected closes = false;
  #framing: Framing = "none";
  #received = 0;
  /** Text that is written together with the text that follows at once. */
  #text = "";
  #isFlushedSoon = false;
  #lent: LentBuffers | undefined;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  onContent(content: Buffer, release: (() => void) | undefined): boolean {
    this.#received += content.length;
    if (content.length > smallBytes) return this.#writeLarge(content, release);
    const text = content.toString("latin1");
    release?.();
    if (!this.isChunked) {
      this.#text += text;
      // Otherwise the content is complete, and the end follows at once.
      if (this.#received !== this.#framing) this.flush();
    } else {
      this.#text += `${content.length.toString(16)}\r\n${text}\r\n`;
      // The end may follow at once.
      this.#flushSoon();
    }
    return takesMore(this.socket);
  }

  onInformational(head: ResponseHead): void {
    const links = linksIn(head);
    if (links.length === 0 || this.hasBegun) return;
    this.socket.write(`HTTP/1.1 103 Early Hints\r\nLink: ${links.join(", ")}\r\n\r\n`, "latin1");
  }

  onDrain(): void {
    this.socket.resume();
  }

  writeNow(): void {
    this.#isFlushedSoon = false;
    this.flush();
  }

  /** Resets the state for the response to a new request. */
  protected expectResponse(closesAfter: boolean): void {
    this.closes = closesAfter;
    this.status = 200;
    this.hasBegun = false;
    this.#received = 0;
  }

  /** Begins a response with its head; `lines` lacks those about the connection. */
  protected beginResponse(status: number, framing: Framing, lines: string): void {
    this.status = status;
    this.hasBegun = true;
    this.#framing = framing;
    this.#text += lines + (this.isChunked ? chunkedEnds : ends)[this.closes ? "closes" : "keepsAlive"];
  }

  /** Adds text that is written with the next `flush`. */
  protected addText(text: string): void {
    this.#text += text;
  }

  protected addLastChunk(trailers: readonly string[]): void {
    this.#text += "0\r\n";
    const kept = trailers.length === 0 ? trailers : trailersIn(trailers);
    for (let i = 0; i < kept.length; i += 2) this.#text += `${kept[i]}: ${kept[i + 1]}\r\n`;
    this.#text += "\r\n";
  }

  protected flush(): void {
    const text = this.#text;
    if (text === "") return;
    this.#text = "";
    writeText(this.socket, text);
  }

  /** Releases the lent buffers that will not be written any more. */
  protected releaseLent(): void {
    this.#lent?.releaseAll();
  }

  #flushSoon(): void {
    if (this.#isFlushedSoon) return;
    this.#isFlushedSoon = true;
    process.nextTick(writeNow, this);
  }

  #writeLarge(content: Buffer, release: (() => void) | undefined): boolean {
    const socket = this.socket;
    socket.cork();
    if (this.isChunked) this.#text += `${content.length.toString(16)}\r\n`;
    this.flush();
    if (release === undefined) socket.write(Buffer.from(content));
    else this.#writeLent(content, release);
    if (this.isChunked) socket.write("\r\n", "latin1");
    socket.uncork();
    // Lent buffers limit themselves: one is filled while the other is being written.
    return release !== undefined || takesMore(socket);
  }

  #writeLent(content: Buffer, release: () => void): void {
    this.#lent ??= new LentBuffers();
    this.socket.write(content, this.#lent.add(release));
  }
}

const writeNow = (response: ClientResponse): void => response.writeNow();

/** Returns whether the head of a response tells a client over HTTP/1.1 how the body ends. */
export function hasKnownEnd({ status, framing, fields }: ResponseHead): boolean {
  return framing !== "none" || isBodiless(status) || hasContentLength(fields);
}

/** RFC 9112, 6.3: these responses have no body, so their head says nothing about a body. */
const isBodiless = (status: number): boolean => status === 204 || status === 304;

const hasContentLength = (fields: readonly string[]): boolean =>
  fields.some((name, i) => i % 2 === 0 && lowerCase(name) === "content-length");
