import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { startDoorways } from "../../support/peers/doorways.ts";
import { apiKey, type ProxiedSidecar } from "../../support/peers/provider.ts";
import { below, fuzzSeeds, seeded } from "../../support/runner/seeded.ts";
import { secretKey } from "../../support/sidecar/harness.ts";

/** The number on each path, for each seed. `npm run faults:proxy` draws its seeds, and repeats one by its number. */
const count = Number(process.env["LATCHKEY_FUZZ_COUNT"] ?? 1_500);
const seeds = fuzzSeeds([363_639_072, 2, 3, 5]);
const connectionsAtOnce = 12;
/** After this time an incomplete request gets no more bytes. */
const patienceMs = 250;
/** Seconds without a byte in which this process had nothing else to do: a busy one has not come to the bytes yet. */
const hangsAfterIdleTicks = 15;

interface Request {
  readonly method: string;
  readonly target: string;
  readonly body: string;
  readonly end: number;
  /** Whether another request may follow. */
  readonly keepsAlive: boolean;
  readonly fields: readonly (readonly [string, string])[];
}

const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
// RFC 9112, 3: a reader may accept several spaces here, as Node does; the forwarded line has one.
const requestLine = new RegExp(`^(${token}) +([\\x21-\\x7e]+) +HTTP/1\\.([01])$`);
const fieldLine = new RegExp(`^(${token}):([\\t\\x20-\\x7e\\x80-\\xff]*)$`);
const sizeLine = /^([0-9a-fA-F]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?$/;
const plainNumber = /^(?:0|[1-9][0-9]{0,14})$/;

/**
 * Reads the next request strictly by RFC 9112; undefined while it is incomplete, and `malformed` if two readers could
 * disagree on it.
 */
function readRequest(text: string, from: number): Request | "malformed" | undefined {
  const headEnd = text.indexOf("\r\n\r\n", from);
  if (headEnd === -1) return undefined;
  const [line = "", ...lines] = text.slice(from, headEnd).split("\r\n");
  const [, method, target, minor] = requestLine.exec(line) ?? [];
  if (method === undefined || target === undefined) return "malformed";
  const fields = fieldsIn(lines);
  if (fields === undefined) return "malformed";
  const values = (name: string) => fields.filter(([one]) => one === name).map(([, value]) => value);
  const lengths = values("content-length");
  const codings = values("transfer-encoding");
  if (lengths.length + codings.length > 1 || (codings.length > 0 && minor === "0")) return "malformed";
  const options = values("connection")
    .join()
    .toLowerCase()
    .split(/[ \t]*,[ \t]*/);
  const keepsAlive = minor === "1" ? !options.includes("close") : options.includes("keep-alive");
  const common = { method, target, keepsAlive, fields };
  if (codings[0] !== undefined) {
    if (codings[0].toLowerCase() !== "chunked") return "malformed";
    const chunked = readChunks(text, headEnd + 4);
    return typeof chunked === "object" ? { ...common, ...chunked } : chunked;
  }
  if (lengths[0] !== undefined && !plainNumber.test(lengths[0])) return "malformed";
  const end = headEnd + 4 + Number(lengths[0] ?? "0");
  return end > text.length ? undefined : { ...common, body: text.slice(headEnd + 4, end), end };
}

function fieldsIn(lines: readonly string[]): [string, string][] | undefined {
  const fields: [string, string][] = [];
  for (const line of lines) {
    const [, name, value = ""] = fieldLine.exec(line) ?? [];
    if (name === undefined) return undefined;
    fields.push([name.toLowerCase(), value.replace(/^[ \t]+|[ \t]+$/g, "")]);
  }
  return fields;
}

function readChunks(text: string, from: number): { body: string; end: number } | "malformed" | undefined {
  let body = "";
  for (let at = from; ; ) {
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd === -1) return undefined;
    const size = sizeLine.exec(text.slice(at, lineEnd))?.[1];
    if (size === undefined) return "malformed";
    const length = Number.parseInt(size, 16);
    if (length === 0) {
      const end = text.indexOf("\r\n\r\n", lineEnd);
      if (end === -1) return undefined;
      const trailers = end === lineEnd ? [] : text.slice(lineEnd + 2, end).split("\r\n");
      return fieldsIn(trailers) === undefined ? "malformed" : { body, end: end + 4 };
    }
    const contentEnd = lineEnd + 2 + length;
    if (text.length < contentEnd + 2) return undefined;
    if (text.slice(contentEnd, contentEnd + 2) !== "\r\n") return "malformed";
    body += text.slice(lineEnd + 2, contentEnd);
    at = contentEnd + 2;
  }
}

/** All requests up to the first ambiguous byte, or to the end of the connection. */
function readRequests(text: string): Request[] {
  const found: Request[] = [];
  let at = 0;
  for (;;) {
    // RFC 9112, 2.2: an empty line before a request is passed over; Node passes over half of one as well.
    while (text[at] === "\r" || text[at] === "\n") at += 1;
    const next = readRequest(text, at);
    if (typeof next !== "object") return found;
    found.push(next);
    if (!next.keepsAlive) return found;
    at = next.end;
  }
}

const keyOf = ({ method, target, body }: Pick<Request, "method" | "target" | "body">) => `${method} ${target}\n${body}`;

/** Reads requests as strictly, compares them with the allowed ones, and answers with the target. */
async function startStrictOrigin(onRequest: (request: Request) => void, onWrong: (what: string) => void) {
  const server = createServer((socket) => {
    let text = "";
    socket.setEncoding("latin1").on("error", () => {});
    socket.on("data", (piece: string) => {
      text += piece;
      let at = 0;
      let answers = "";
      for (;;) {
        const next = readRequest(text, at);
        if (next === "malformed") onWrong(`a request that is none: ${JSON.stringify(text.slice(at, at + 300))}`);
        if (typeof next !== "object") break;
        onRequest(next);
        at = next.end;
        answers += `HTTP/1.1 200 OK\r\nContent-Length: ${next.target.length}\r\n\r\n${next.method === "HEAD" ? "" : next.target}`;
      }
      text = text.slice(at);
      if (answers !== "") socket.write(answers);
    });
  });
  // Hundreds of pipelined requests come at once: with Node's 511, the system drops some, and tries them again later.
  server.listen({ port: 0, host: "127.0.0.1", backlog: 4_096 });
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port };
}

function createDice(from: number) {
  const next = seeded(from);
  const one = <T>(of: readonly T[]): T => {
    const found = of[below(next, of.length)];
    if (found === undefined) throw new Error("there is nothing to choose from");
    return found;
  };
  return { below: (n: number) => below(next, n), one, chance: (p: number) => next() < p };
}
type Dice = ReturnType<typeof createDice>;

const methods = ["GET", "GET", "POST", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "PROPFIND"];
const extras = [
  "Accept: */*",
  "X-High: caf\xe9",
  "Connection: keep-alive",
  "Connection: X-Nominated, Content-Length",
  "X-Nominated: x",
  "TE: trailers",
  "Cookie: a=b",
  "Nango-Proxy-Transfer-Encoding: chunked",
  "Nango-Proxy-X-Y: z",
  "Transfer_Encoding: chunked",
  "Upgrade: h2c",
  "Trailer: X",
  "Forwarded: for=x",
  "Content-Type: text/plain",
  "Retries: 1",
];

/** Stands for the provider's address, which differs by side. As long as that: lengths and mutations are the same. */
const hostOfAll = "127.0.0.1:PPPPP";

interface Making {
  readonly id: string;
  readonly lines: string;
  readonly isLast: boolean;
}

/** A request that has one meaning; its body would be another request, were it taken for one. */
function makeRequest(dice: Dice, { id, lines, isLast }: Making): string {
  const hidden = `GET /proxy/hidden-${id} HTTP/1.1\r\nHost: ${hostOfAll}\r\n${dice.chance(0.5) ? lines : ""}\r\n`;
  // Each at most once, since most may not repeat.
  const more = [...new Set(Array.from({ length: dice.below(4) }, () => `${dice.one(extras)}\r\n`))].join("");
  const body = dice.one(["", hidden, hidden, `0\r\n\r\n${hidden}`, "x".repeat(dice.below(2_000))]);
  // A request without a body has nothing to wait for: Node closes the connection after it.
  const expects = body !== "" && dice.chance(0.1) ? "Expect: 100-continue\r\n" : "";
  const head = `${dice.one(methods)} /proxy/f-${id} HTTP/1.1\r\nHost: ${hostOfAll}\r\n${lines}${more}${expects}${isLast ? "Connection: close\r\n" : ""}`;
  if (body === "" && dice.chance(0.7)) return `${head}\r\n`;
  if (dice.chance(0.5)) return `${head}Content-Length: ${body.length}\r\n\r\n${body}`;
  const cut = dice.below(body.length + 1);
  const chunks = [body.slice(0, cut), body.slice(cut)]
    .filter((piece) => piece !== "")
    .map((piece) => `${piece.length.toString(16)}${dice.chance(0.2) ? ";a=b" : ""}\r\n${piece}\r\n`);
  const trailer = dice.chance(0.2) ? `${dice.one(["X: y", "Authorization: x", "Connection-Id: x"])}\r\n` : "";
  return `${head}Transfer-Encoding: chunked\r\n\r\n${chunks.join("")}0\r\n${trailer}\r\n`;
}

const insertions = [
  ...[
    "\r",
    "\n",
    "\r\n",
    "\r\n\r\n",
    "\n\n",
    " ",
    "\t",
    "\0",
    "\x0b",
    "\x7f",
    "\xa0",
    "\xff",
    ":",
    ";",
    ",",
    "0",
    "+",
    "-",
    "_",
  ],
  ...[
    "\r\n ",
    "chunked",
    "identity, ",
    "\r\nTransfer-Encoding: chunked",
    "\r\nTransfer-Encoding: x",
    "\r\nContent-Length: 5",
  ],
  ...[
    "\r\nContent-Length: 0",
    "\nTransfer-Encoding: chunked",
    " HTTP/1.1",
    "GET / HTTP/1.1\r\n",
    "0\r\n\r\n",
    "\r\nHost: x",
    "0x",
  ],
];

function mutate(dice: Dice, request: string): string {
  const bodyAt = request.indexOf("\r\n\r\n") + 4;
  // The head and the start of the body matter most.
  const at = dice.chance(0.85) ? dice.below(Math.min(request.length, bodyAt + 20)) : dice.below(request.length);
  const { one } = dice;
  const replace = (length: number, by: string) => request.slice(0, at) + by + request.slice(at + length);
  switch (dice.below(9)) {
    case 0:
      return replace(1, String.fromCharCode(dice.below(256)));
    case 1:
      return replace(1 + dice.below(8), "");
    case 2:
      return replace(0, one(insertions));
    case 3: {
      const from = Math.max(0, request.lastIndexOf("\r\n", at) + 2);
      const to = request.indexOf("\r\n", from) + 2;
      return request.slice(0, to) + request.slice(from, to) + request.slice(to);
    }
    case 4: {
      const end = request.indexOf("\r\n", at);
      return end === -1
        ? request
        : request.slice(0, end) + one(["\n", "\r", "\r\r\n", "\n\r", " \r\n", ""]) + request.slice(end + 2);
    }
    case 5:
      return request.replace(
        /^(content-length|transfer-encoding):/im,
        one(["$1 :", " $1:", "$1\t:", "$1:\r\n ", "X$1:", "$1;", "$1:\0"]),
      );
    case 6:
      return request.replace(
        /^content-length: (\d+)/im,
        (_, n: string) =>
          `Content-Length: ${one([`+${n}`, `0${n}`, `${n},${n}`, `${n} 0`, `-${n}`, `0x${n}`, `${Number(n) + 1 + dice.below(50)}`, `${Math.max(0, Number(n) - 1 - dice.below(50))}`, `${n}\r\nContent-Length: ${n}`])}`,
      );
    case 7:
      return request.replace(
        /^transfer-encoding: chunked/im,
        `Transfer-Encoding: ${one(["xchunked", "chunked, chunked", "gzip, chunked", "chunked, identity", "CHUNKED", "chunked\r\nTransfer-Encoding: chunked", "chunked\x0b", "chunked\r\nContent-Length: 3", ",chunked"])}`,
      );
    default:
      return request.slice(0, at);
  }
}

interface Outcome {
  readonly text: string;
  readonly hung: boolean;
}

function converse(port: number, bytes: string, { isPatient }: { readonly isPatient: boolean }): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    let patience: NodeJS.Timeout | undefined;
    const wait = () => {
      clearTimeout(patience);
      if (!isPatient) patience = setTimeout(() => socket.end(), patienceMs);
    };
    let idleTicks = 0;
    let before = performance.eventLoopUtilization();
    const hang = setInterval(() => {
      const now = performance.eventLoopUtilization();
      if (performance.eventLoopUtilization(now, before).utilization < 0.5) idleTicks += 1;
      before = now;
      if (idleTicks < hangsAfterIdleTicks) return;
      resolve({ text, hung: true });
      socket.destroy();
    }, 1_000);
    socket.setEncoding("latin1").on("error", () => {});
    socket.on("data", (piece: string) => {
      text += piece;
      idleTicks = 0;
      wait();
    });
    socket.on("close", () => {
      clearTimeout(patience);
      clearInterval(hang);
      resolve({ text, hung: false });
    });
    socket.write(bytes, "latin1");
    wait();
  });
}

/** Status and body of each response, in order; a truncated one does not count. */
function readAnswers(text: string, asked: readonly Request[]): { status: number; body: string }[] {
  const found: { status: number; body: string }[] = [];
  for (let at = 0; at < text.length; ) {
    const headEnd = text.indexOf("\r\n\r\n", at);
    const head = text.slice(at, headEnd);
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]);
    if (headEnd === -1 || Number.isNaN(status)) return found;
    at = headEnd + 4;
    if (status < 200) continue;
    const length = asked[found.length]?.method === "HEAD" ? 0 : Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0);
    found.push({ status, body: text.slice(at, at + length) });
    at += length;
  }
  return found;
}

interface Side {
  readonly name: SideName;
  readonly port: number;
  /** Value of the Host field. */
  readonly host: string;
  /** The number of requests at the provider. */
  readonly arrived: () => number;
  /** Allows a request that must arrive unchanged. */
  allow(request: Request): void;
  readonly sidecar: ProxiedSidecar;
}

/** In a tunnel of the forward proxy, a request for another path than `/proxy` is one for the provider as well. */
type SideName = "fast lane" | "general lane" | "tunnel";

const sideNames: readonly SideName[] = ["fast lane", "general lane", "tunnel"];

/** A sidecar on one path, and its own provider that compares what arrives with what may arrive. */
async function startSide(name: SideName, wrong: string[], suspectsOf: (key: string) => readonly string[]) {
  const allowed = new Map<string, number>();
  let arrived = 0;
  const tell = (what: string) => void wrong.push(`${name}: ${what}`);
  const onRequest = (request: Request) => {
    const key = keyOf(request);
    arrived += 1;
    const left = allowed.get(key) ?? 0;
    if (left === 0) tell(`nobody has sent ${JSON.stringify([key.slice(0, 300), ...suspectsOf(key)])}`);
    else if (left === 1) allowed.delete(key);
    else allowed.set(key, left - 1);
    const values = (name: string) => request.fields.filter(([one]) => one === name).map(([, value]) => value);
    if (values("x-api-key").join() !== apiKey) tell(`the credentials are not there once: ${key.slice(0, 300)}`);
    if (values("host").length !== 1 || values("via").at(-1) !== "1.1 latchkey") tell(`not as a gateway: ${key}`);
    if (request.fields.some(([, value]) => value.includes(secretKey))) tell(`with the caller's key: ${key}`);
  };
  const origin = await startStrictOrigin(onRequest, tell);
  const sidecar = await startDoorways(origin.port, {
    env: { LATCHKEY_FAST_LANE: name === "general lane" ? "off" : "on" },
  });
  const { address } = sidecar.doorways[name === "tunnel" ? "tunnel" : "/proxy"];
  const side: Side = {
    name,
    port: Number(new URL(address).port),
    host: `127.0.0.1:${origin.port}`,
    arrived: () => arrived,
    sidecar,
    allow(request) {
      const key = keyOf(request);
      allowed.set(key, (allowed.get(key) ?? 0) + 1);
    },
  };
  return side;
}

interface Lanes {
  readonly sides: readonly Side[];
  readonly wrong: string[];
  /** Conversations in progress: their first number, and their mutations. */
  readonly mutated: Map<number, readonly string[]>;
  /** Requests so far that must have arrived. */
  clean: number;
}

interface Conversation {
  readonly first: number;
  readonly requests: readonly string[];
  readonly isMutated: boolean;
}

/** The same for a seed and a number, whatever other conversations do meanwhile. */
function makeConversation(dice: Dice, { first, lines, size }: { first: number; lines: string; size: number }) {
  const requests = Array.from({ length: size }, (_, i) =>
    makeRequest(dice, { id: `${first + i}.`, lines, isLast: i === size - 1 }),
  );
  const mutations: string[] = [];
  const isMutated = dice.chance(0.6);
  for (let n = isMutated ? 1 + dice.below(3) : 0; n > 0; n -= 1) {
    const at = dice.below(size);
    requests[at] = mutate(dice, requests[at] ?? "");
    mutations.push(requests[at]);
  }
  return { conversation: { first, requests, isMutated }, mutations };
}

/** A changed byte may turn `/proxy/x` into `/?roxy/x`, a request for Latchkey's own page. */
const isFrontPage = (body: string): boolean => body === "" || JSON.parse(body).name === "latchkey";

/** Has the same conversation over both lanes. */
async function compare({ sides, wrong }: Lanes, { requests, isMutated }: Conversation): Promise<void> {
  const statuses = await Promise.all(
    sides.map(async (side) => {
      const { name, port, host } = side;
      const bytes = requests.join("").replaceAll(hostOfAll, host);
      const asked = readRequests(bytes);
      const prefix = name === "tunnel" ? "" : "/proxy";
      const targetOf = ({ target }: Request) => (target.startsWith(prefix) ? target.slice(prefix.length) : target);
      for (const one of asked) side.allow({ ...one, target: targetOf(one) });
      const { text, hung } = await converse(port, bytes, { isPatient: !isMutated });
      const tell = (what: string) =>
        wrong.push(`${name}: ${what}; got ${JSON.stringify(text.slice(-500))}; sent ${JSON.stringify(bytes)}`);
      if (hung) tell("it hangs");
      const answers = readAnswers(text, asked);
      const stray = answers.find(({ status, body }, i) => {
        const one = asked[i];
        if (status !== 200) return status < 400;
        if (one !== undefined && name !== "tunnel" && /^\/(?:\?|$)/.test(one.target)) return !isFrontPage(body);
        return one === undefined || (one.method !== "HEAD" && targetOf(one) !== body);
      });
      if (stray !== undefined) tell(`an answer to nobody: ${JSON.stringify(stray)}`);
      if (!isMutated) {
        const unanswered = answers.findIndex(({ status }) => status !== 200);
        if (answers.length !== requests.length || unanswered !== -1) {
          const at = unanswered === -1 ? answers.length : unanswered;
          tell(`answered with ${JSON.stringify(answers[at])}: ${JSON.stringify(requests[at])}`);
        }
      }
      return answers.map(({ status }) => status);
    }),
  );
  // A conversation may end early on either path. The responses that both gave must agree; in a tunnel, other targets are
  // the provider's.
  const [onFast = [], onGeneral = []] = statuses;
  const at = onFast.findIndex((status, i) => onGeneral[i] !== undefined && onGeneral[i] !== status);
  if (at !== -1) wrong.push(`${onFast[at]} on the fast lane, else ${onGeneral[at]}: ${JSON.stringify([at, requests])}`);
}

async function runSeed(lanes: Lanes, { seed, from }: { readonly seed: number; readonly from: number }): Promise<void> {
  const { sides, wrong, mutated } = lanes;
  process.stdout.write(`fuzz: LATCHKEY_FUZZ_SEED=${seed} LATCHKEY_FUZZ_COUNT=${count}\n`);
  const lines = sides[0]?.sidecar.proxyLines ?? "";
  let sent = 0;
  let conversations = 0;

  async function work(): Promise<void> {
    while (sent < count && wrong.length < 20) {
      conversations += 1;
      const dice = createDice(seed + conversations * 1_000_003);
      const size = 1 + dice.below(dice.chance(0.5) ? 4 : 70);
      const first = from + sent;
      sent += size;
      const { conversation, mutations } = makeConversation(dice, { first, lines, size });
      mutated.set(first, mutations);
      await compare(lanes, conversation);
      mutated.delete(first);
      if (!conversation.isMutated) lanes.clean += size;
    }
  }

  await Promise.all(Array.from({ length: connectionsAtOnce }, work));
  expect(wrong.slice(0, 3), `LATCHKEY_FUZZ_SEED=${seed}`).toEqual([]);
}

it(
  "P10 reads any input as a strict reader does, or not at all; the fast path reads no more than the general one",
  async () => {
    const wrong: string[] = [];
    const mutated = new Map<number, readonly string[]>();
    const suspectsOf = (key: string) => {
      const id = Number(/f-(\d+)|hidden-(\d+)/.exec(key)?.[1]);
      return [...mutated].findLast(([first]) => first <= id)?.[1] ?? [];
    };
    const sides = await Promise.all(sideNames.map((name) => startSide(name, wrong, suspectsOf)));
    const lanes: Lanes = { sides, wrong, mutated, clean: 0 };
    for (const [i, seed] of seeds.entries()) await runSeed(lanes, { seed, from: (i + 1) * 10_000_000 });
    for (const { arrived, sidecar } of sides) {
      expect(arrived()).toBeGreaterThanOrEqual(lanes.clean);
      expect((await sidecar.metric("latchkey_unhandled_errors_total")) ?? 0).toBe(0);
      expect(sidecar.logged.filter((line) => line.includes('"level":"error"'))).toEqual([]);
      await expect.poll(() => sidecar.metric("latchkey_proxy_open")).toBe(0);
    }
  },
  Math.max(600_000, seeds.length * count * 60),
);
