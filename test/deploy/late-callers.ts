import http2, { type ClientHttp2Session } from "node:http2";
import net, { type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import tls from "node:tls";
import { parentPort, workerData } from "node:worker_threads";

/**
 * Callers in a thread of their own: they send while the event loop of a listener is blocked, so that nothing of it has
 * been read, or even accepted, when the listener goes on.
 */

/** What a caller has done before the loop is blocked: opened nothing, a connection, or one with an answered request. */
export type CallerKind = "fresh" | "opened" | "kept";

export interface LateCaller {
  readonly name: string;
  readonly address: string;
  readonly kind: CallerKind;
  /** HTTP/1.1. */
  readonly text?: string;
  /** HTTP/2. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Bytes in hex. */
  readonly body?: string;
}

export interface LateCalling {
  readonly callers: readonly LateCaller[];
  /** Notified when all requests have been sent. */
  readonly sent: SharedArrayBuffer;
}

export interface LateAnswer {
  readonly name: string;
  /** Status and the header `connection`, or how the connection ended instead. */
  readonly outcome: string;
}

interface Caller {
  /** Resolves when the connection is open, and its first request has been answered. */
  readonly ready: Promise<unknown>;
  send(): Promise<unknown>;
  readonly outcome: Promise<string>;
}

function open(
  { address }: LateCaller,
  protocol: string,
): { readonly socket: Socket; readonly opened: Promise<unknown> } {
  const { hostname: host, port, protocol: scheme } = new URL(address);
  const tcp = net.connect({ host, port: Number(port), noDelay: true });
  const opened = new Promise((resolve) => tcp.once("connect", resolve).once("error", resolve));
  if (scheme !== "https:") return { socket: tcp, opened };
  const socket = tls.connect({ socket: tcp, ALPNProtocols: [protocol], rejectUnauthorized: false });
  return { socket, opened };
}

/** Everything that comes between opening and closing. */
function overHttp1(caller: LateCaller): Caller {
  const { kind, text = "" } = caller;
  let answered = "";
  let failure = "";
  let onData = () => {};
  let connection: ReturnType<typeof open> | undefined;
  let settle: (outcome: string) => void = () => {};
  const outcome = new Promise<string>((resolve) => {
    settle = resolve;
  });
  function connect() {
    connection = open(caller, "http/1.1");
    const { socket } = connection;
    socket.setEncoding("latin1").on("data", (bytes: string) => {
      answered += bytes;
      onData();
    });
    socket.on("error", ({ message }) => {
      failure = message;
    });
    socket.on("close", () => settle(outcomeIn(answered) ?? `closed ${failure}`.trim()));
    return connection;
  }
  async function before() {
    if (kind === "fresh") return;
    const { socket, opened } = connect();
    await opened;
    // Accepted and read from: the protocol of TLS is known.
    if (socket instanceof tls.TLSSocket) await new Promise((resolve) => socket.once("secureConnect", resolve));
    if (kind === "opened") return;
    await new Promise<void>((resolve) => {
      onData = () => {
        if (outcomeIn(answered) !== undefined) resolve();
      };
      socket.write(text);
    });
    answered = "";
  }
  return {
    ready: before(),
    outcome,
    send() {
      const { socket, opened } = connection ?? connect();
      socket.write(text);
      return opened;
    },
  };
}

function outcomeIn(text: string): string | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end === -1) return undefined;
  const connection = /^connection: (.*)\r$/im.exec(text.slice(0, end + 2))?.[1];
  return `${text.slice("HTTP/1.1 ".length, "HTTP/1.1 200".length)} ${connection ?? ""}`.trim();
}

function overHttp2(caller: LateCaller): Caller {
  const { kind, headers = {}, body } = caller;
  let settle: (outcome: string) => void = () => {};
  const outcome = new Promise<string>((resolve) => {
    settle = resolve;
  });
  let session: ClientHttp2Session | undefined;
  let opened: Promise<unknown> = Promise.resolve();
  function connect(): ClientHttp2Session {
    const connection = open(caller, "h2");
    opened = connection.opened;
    const made = http2.connect(caller.address, { createConnection: () => connection.socket });
    made.on("error", ({ message }: Error) => settle(message));
    session = made;
    return made;
  }
  function ask(over: ClientHttp2Session): Promise<string> {
    return new Promise((resolve) => {
      const stream = over.request(headers, { endStream: body === undefined });
      if (body !== undefined) stream.end(Buffer.from(body, "hex"));
      let status = "";
      stream.on("response", (head) => {
        status = String(head[":status"]);
      });
      stream.on("error", ({ message }: Error) => resolve(message));
      stream.on("close", () => resolve(status === "" ? `closed with ${stream.rstCode}` : status));
      stream.resume();
    });
  }
  async function before() {
    if (kind === "fresh") return;
    const made = connect();
    await new Promise((resolve) => made.once("remoteSettings", resolve));
    if (kind === "kept") await ask(made);
  }
  return {
    ready: before(),
    outcome,
    send() {
      ask(session ?? connect()).then(settle);
      return opened;
    },
  };
}

async function run({ callers: asked, sent }: LateCalling): Promise<void> {
  const callers = asked.map((one) => (one.headers === undefined ? overHttp1(one) : overHttp2(one)));
  await Promise.all(callers.map(({ ready }) => ready));
  parentPort?.once("message", async () => {
    await Promise.all(callers.map((one) => one.send()));
    // What was written when a connection had opened leaves with it.
    for (let turns = 0; turns < 3; turns += 1) await nextTurn();
    const flag = new Int32Array(sent);
    Atomics.store(flag, 0, 1);
    Atomics.notify(flag, 0);
    const answers = await Promise.all(
      callers.map(
        async ({ outcome }, i): Promise<LateAnswer> => ({ name: asked[i]?.name ?? "", outcome: await outcome }),
      ),
    );
    parentPort?.postMessage(answers);
    // Sessions of HTTP/2 are left open by their callers.
    process.exit();
  });
  parentPort?.postMessage("ready");
}

if (parentPort !== null) await run(workerData as LateCalling);
