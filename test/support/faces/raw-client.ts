import { connect, type Socket } from "node:net";

/** The head of a response. */
export interface RawAnswer {
  readonly status: number;
  /** Latchkey's own error; undefined: the provider has answered. */
  readonly code: string | undefined;
}

/** Sends bytes as they are over one kept connection, one request at a time. */
export class RawClient {
  readonly #address: URL;
  #socket: Socket | undefined;
  #text = "";
  #waiting: ((answer: RawAnswer | undefined) => void) | undefined;
  #isHead = false;

  constructor(address: string) {
    this.#address = new URL(address);
  }

  /** Resolves with undefined if the connection ends without a response. */
  async send(bytes: string): Promise<RawAnswer | undefined> {
    const isFresh = this.#socket === undefined;
    const answer = await this.#sendOnce(bytes);
    // A connection that was kept may have been closed meanwhile.
    return answer === undefined && !isFresh ? this.#sendOnce(bytes) : answer;
  }

  #sendOnce(bytes: string): Promise<RawAnswer | undefined> {
    this.#socket ??= this.#open();
    this.#isHead = bytes.startsWith("HEAD ");
    const socket = this.#socket;
    return new Promise((resolve) => {
      this.#waiting = resolve;
      socket.write(bytes, "latin1");
    });
  }

  close(): void {
    this.#socket?.destroy();
  }

  #open(): Socket {
    const socket = connect(Number(this.#address.port), this.#address.hostname);
    this.#text = "";
    socket.setNoDelay().setEncoding("latin1");
    socket.on("error", () => {});
    socket.on("data", (text: string) => {
      this.#text += text;
      this.#read(socket);
    });
    socket.once("end", () => this.#leave(socket));
    socket.once("close", () => this.#leave(socket));
    return socket;
  }

  #leave(socket: Socket): void {
    socket.destroy();
    if (this.#socket !== socket) return;
    this.#socket = undefined;
    this.#settle(undefined);
  }

  #settle(answer: RawAnswer | undefined): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.(answer);
  }

  #read(socket: Socket): void {
    const headEnd = this.#text.indexOf("\r\n\r\n");
    if (headEnd === -1) return;
    const head = this.#text.slice(0, headEnd);
    const status = Number(head.slice("HTTP/1.1 ".length, "HTTP/1.1 200".length));
    const length = this.#isHead ? 0 : Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0);
    if (this.#text.length < headEnd + 4 + length) return;
    this.#text = this.#text.slice(headEnd + 4 + length);
    // The connection is left before the next request, which would be lost on it.
    if (/^connection: close/im.test(head)) {
      this.#socket = undefined;
      socket.destroy();
    }
    this.#settle({ status, code: /^latchkey-error: (\S+)/im.exec(head)?.[1] });
  }
}
