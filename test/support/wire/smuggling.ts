import type { Doorway } from "../peers/doorways.ts";

/** Bytes for a connection of its own, and the allowed outcome. */
export interface Attempt {
  readonly name: string;
  /** `id` is a path that no other attempt uses. */
  readonly bytes: (id: string, door: Spot) => string;
  /**
   * `refused`: one response that refuses, and the end of the connection; nothing reaches the provider. A body: one
   * request with this body, and one response. `either`: one of the two, with any body.
   */
  readonly expected: "refused" | "either" | { readonly body: string | RegExp; readonly alsoSecond?: boolean };
}

/** The part of a doorway that bytes depend on. */
export type Spot = Pick<Doorway, "target" | "host" | "lines">;

/** A complete request that would take effect if a reader saw it as one. */
const hidden = (id: string, { target, host, lines }: Spot) =>
  `GET ${target(`/hidden-${id}`)} HTTP/1.1\r\nHost: ${host}\r\n${lines}\r\n`;
const startOf = (method: string, id: string, { target, host, lines }: Spot) =>
  `${method} ${target(`/${id}`)} HTTP/1.1\r\nHost: ${host}\r\n${lines}`;
const post = (id: string, door: Spot) => startOf("POST", id, door);
const get = (id: string, door: Spot) => startOf("GET", id, door);

/** The mutations that the tool `smuggler` tries by default, each a way to write a field that one parser sees and another does not. */
export function smugglerMutations(): Map<string, string> {
  const mutations = new Map([
    ["nameprefix1", " Transfer-Encoding: chunked"],
    ["tabprefix1", "Transfer-Encoding:\tchunked"],
    ["tabprefix2", "Transfer-Encoding\t:\tchunked"],
    ["space1", "Transfer-Encoding : chunked"],
  ]);
  for (const code of [0x01, 0x04, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x1f, 0x20, 0x7f, 0xa0, 0xff]) {
    const c = String.fromCharCode(code);
    const hex = code.toString(16).padStart(2, "0");
    mutations.set(`midspace-${hex}`, `Transfer-Encoding:${c}chunked`);
    mutations.set(`postspace-${hex}`, `Transfer-Encoding${c}: chunked`);
    mutations.set(`prespace-${hex}`, `${c}Transfer-Encoding: chunked`);
    mutations.set(`endspace-${hex}`, `Transfer-Encoding: chunked${c}`);
    mutations.set(`xprespace-${hex}`, `X: X${c}Transfer-Encoding: chunked`);
    mutations.set(`endspacex-${hex}`, `Transfer-Encoding: chunked${c}X: X`);
    mutations.set(`rxprespace-${hex}`, `X: X\r${c}Transfer-Encoding: chunked`);
    mutations.set(`xnprespace-${hex}`, `X: X${c}\nTransfer-Encoding: chunked`);
    mutations.set(`endspacerx-${hex}`, `Transfer-Encoding: chunked\r${c}X: X`);
    mutations.set(`endspacexn-${hex}`, `Transfer-Encoding: chunked${c}\nX: X`);
  }
  return mutations;
}

/** RFC 9110, 5.5: blanks, tabs and high bytes are part of a value: there is an `X` here, and nothing else. */
const valuesOfX = new Set(["xprespace-09", "xprespace-20", "xprespace-a0", "xprespace-ff"]);

const hexLength = (text: string) => text.length.toString(16);

export function disguisedCodings(): Attempt[] {
  const mutations = smugglerMutations();
  return [...mutations].flatMap(([name, field]): Attempt[] => {
    const isHarmless = valuesOfX.has(name);
    const clTe = (id: string, door: Spot) => `0\r\n\r\n${hidden(id, door)}`;
    const size = (id: string, door: Spot) => `${hexLength(hidden(id, door))}\r\n`;
    return [
      {
        name: `${name}, CL.TE`,
        bytes: (id, door) =>
          `${post(id, door)}${field}\r\nContent-Length: ${clTe(id, door).length}\r\n\r\n${clTe(id, door)}`,
        expected: isHarmless ? "either" : "refused",
      },
      {
        name: `${name}, TE.CL`,
        bytes: (id, door) =>
          `${post(id, door)}${field}\r\nContent-Length: ${size(id, door).length}\r\n\r\n${size(id, door)}${hidden(id, door)}\r\n0\r\n\r\n`,
        // A coding only in the value of X: what follows the length is a second request for every reader.
        expected: isHarmless ? { body: /^[0-9a-f]+\r\n$/, alsoSecond: true } : "refused",
      },
    ];
  });
}

const chunked = (body: string, field = "Transfer-Encoding: chunked"): Attempt["bytes"] => {
  return (id, door) => `${post(id, door)}${field}\r\n\r\n${body}`;
};
const lengthy = (field: string, body = "hello"): Attempt["bytes"] => {
  return (id, door) => `${post(id, door)}${field}\r\n\r\n${body}${hidden(id, door)}`;
};
const withField = (field: string): Attempt["bytes"] => {
  return (id, door) => `${get(id, door)}${field}\r\n\r\n`;
};
/** `PATH` stands for the request line's path. */
const withLine = (line: string): Attempt["bytes"] => {
  return (id, door) => `${line.replace("PATH", door.target(`/${id}`))}\r\nHost: ${door.host}\r\n${door.lines}\r\n`;
};

const lengths = [
  "Content-Length: +5",
  "Content-Length: -5",
  "Content-Length: 05",
  "Content-Length: 0x5",
  "Content-Length: 5_0",
  "Content-Length: 5.0",
  "Content-Length: 5e0",
  "Content-Length: 5 5",
  "Content-Length: 5,5",
  "Content-Length: 5, 6",
  "Content-Length:",
  "Content-Length: ,5",
  "Content-Length: 5;",
  "Content-Length: \xb5",
  "Content-Length: 5\x0b",
  "Content-Length: 5\x00",
  "Content-Length: 18446744073709551621",
  "Content-Length: 99999999999999999999999999",
  "Content-Length : 5",
  "Content-Length\t: 5",
  "Content-Length\x00: 5",
  " Content-Length: 5",
  "Content-Length:\r\n 5",
  "Content-Length: 5\r\n 0",
  "Content-Length: 5\r\nContent-Length: 5",
  "Content-Length: 5\r\nContent-Length: 6",
  "Content-Length: 5\r\nContent-Length:",
  "Content-Length: 5\r\nTransfer-Encoding: chunked",
  "Transfer-Encoding: chunked\r\nContent-Length: 5",
  "Content-Length: 0\r\nTransfer-Encoding: chunked",
  "Content-Length: 5\r\nTransfer-Encoding: identity",
  "Content-Length: 5\r\nTransfer-Encoding:",
];

const codings = [
  "xchunked",
  "chunkedx",
  "x",
  "identity",
  "chunked, identity",
  "identity, chunked",
  "chunked, chunked",
  "gzip",
  "gzip, chunked",
  "chunked;q=1",
  '"chunked"',
  ",chunked",
  "chunked,",
  "chun ked",
  "chunk\xe9d",
  "chunked\r\nTransfer-Encoding: chunked",
  "chunked\r\nTransfer-Encoding: identity",
  "identity\r\nTransfer-Encoding: chunked",
  "chunked\r\n x",
  "\r\n chunked",
  "x\nTransfer-Encoding: chunked",
  "chunked\x00",
  "\x0bchunked",
  "",
];

/** Servers in use read each of these in two ways, if at all. */
const chunkBodies: readonly [string, string][] = [
  ["a plus before the size", "+5\r\nhello\r\n0\r\n\r\n"],
  ["a minus before the size", "-5\r\nhello\r\n0\r\n\r\n"],
  ["a size in 0x", "0x5\r\nhello\r\n0\r\n\r\n"],
  ["a size with an underscore", "0_5\r\nhello\r\n0\r\n\r\n"],
  ["a blank before the size", " 5\r\nhello\r\n0\r\n\r\n"],
  ["a tab before the size", "\t5\r\nhello\r\n0\r\n\r\n"],
  ["a tab behind the size", "5\t\r\nhello\r\n0\r\n\r\n"],
  ["a vertical tab behind the size", "5\x0b\r\nhello\r\n0\r\n\r\n"],
  ["NUL behind the size", "5\x00\r\nhello\r\n0\r\n\r\n"],
  ["no size", "\r\nhello\r\n0\r\n\r\n"],
  ["a size that is none", "g\r\nhello\r\n0\r\n\r\n"],
  ["an h behind the size", "5h\r\nhello\r\n0\r\n\r\n"],
  ["a size over 64 bits", "10000000000000005\r\nhello\r\n0\r\n\r\n"],
  ["an endless size", `${"f".repeat(40)}\r\nhello\r\n0\r\n\r\n`],
  ["a bare LF behind the size", "5\nhello\r\n0\r\n\r\n"],
  ["a bare CR behind the size", "5\rhello\r\n0\r\n\r\n"],
  ["a bare LF behind the content", "5\r\nhello\n0\r\n\r\n"],
  ["nothing behind the content", "5\r\nhello0\r\n\r\n"],
  ["two bytes too many", "5\r\nhelloXX0\r\n\r\n"],
  ["a bare LF in an extension", "5;a\nb\r\nhello\r\n0\r\n\r\n"],
  ["a bare CR in an extension", "5;a\rb\r\nhello\r\n0\r\n\r\n"],
  ["NUL in an extension", "5;a\x00b\r\nhello\r\n0\r\n\r\n"],
  ["an extension without its semicolon", "5 a=b\r\nhello\r\n0\r\n\r\n"],
  ["an extension of 20 KiB", `5;a=${"b".repeat(20_480)}\r\nhello\r\n0\r\n\r\n`],
  ["a bare LF behind the last size", "5\r\nhello\r\n0\n\r\n"],
  ["a bare LF in place of the end", "5\r\nhello\r\n0\r\n\n"],
  ["a trailer with a blank before its colon", "5\r\nhello\r\n0\r\nX : y\r\n\r\n"],
  ["a trailer without a colon", "5\r\nhello\r\n0\r\nX\r\n\r\n"],
  ["a trailer that is folded", "5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n"],
  ["a trailer that ends in a bare LF", "5\r\nhello\r\n0\r\nX: y\n\r\n"],
  ["NUL in a trailer", "5\r\nhello\r\n0\r\nX: \x00\r\n\r\n"],
];

const heads: readonly [string, Attempt["bytes"], Attempt["expected"]][] = [
  ["bare LF throughout", (id, door) => get(id, door).replaceAll("\r\n", "\n").concat("\n"), "refused"],
  ["one bare LF between fields", withField("X: a\nY: b"), "refused"],
  ["one bare CR between fields", withField("X: a\rY: b"), "refused"],
  ["a bare CR within a value", withField("X: a\r b"), "refused"],
  ["a CR too many", withField("X: a\r"), "refused"],
  ["a bare LF in place of the end", (id, door) => `${get(id, door)}\n`, "either"],
  ["a folded value", withField("X: a\r\n b"), "refused"],
  [
    "a fold with nothing before it",
    (id, door) => `GET ${door.target(`/${id}`)} HTTP/1.1\r\n X: y\r\n${door.lines}\r\n`,
    "refused",
  ],
  ["NUL in a value", withField("X: a\x00b"), "refused"],
  ["a vertical tab in a value", withField("X: a\x0bb"), "refused"],
  ["DEL in a value", withField("X: a\x7fb"), "refused"],
  ["NUL in a name", withField("X\x00Y: a"), "refused"],
  ["a high byte in a name", withField("X\xe9: a"), "refused"],
  ["no name", withField(": a"), "refused"],
  ["no colon", withField("X"), "refused"],
  ["a blank before a colon", withField("X : a"), "refused"],
  ["parentheses in a name", withField("X(Y): a"), "refused"],
  ["two Host fields", withField("Host: evil.test"), "refused"],
  ["no Host", (id, door) => `GET ${door.target(`/${id}`)} HTTP/1.1\r\n${door.lines}\r\n`, "refused"],
  ["an empty Host", (id, door) => `GET ${door.target(`/${id}`)} HTTP/1.1\r\nHost:\r\n${door.lines}\r\n`, "refused"],
  [
    "a Host of two",
    (id, door) => `GET ${door.target(`/${id}`)} HTTP/1.1\r\nHost: ${door.host}, x\r\n${door.lines}\r\n`,
    "refused",
  ],
  [
    "a Host with a user",
    (id, door) => `GET ${door.target(`/${id}`)} HTTP/1.1\r\nHost: a@${door.host}\r\n${door.lines}\r\n`,
    "refused",
  ],
  [
    "a Host with a path",
    (id, door) => `GET ${door.target(`/${id}`)} HTTP/1.1\r\nHost: ${door.host}/x\r\n${door.lines}\r\n`,
    "refused",
  ],
  ["HTTP/0.9", (id, door) => `GET ${door.target(`/${id}`)}\r\n\r\n`, "refused"],
  ["HTTP/0.9 with fields", withLine("GET PATH"), "refused"],
  ["HTTP/2.0 as text", withLine("GET PATH HTTP/2.0"), "refused"],
  ["HTTP/1.2", withLine("GET PATH HTTP/1.2"), "refused"],
  ["HTTP/1.10", withLine("GET PATH HTTP/1.10"), "refused"],
  ["HTTP/01.1", withLine("GET PATH HTTP/01.1"), "refused"],
  ["HTTP/1", withLine("GET PATH HTTP/1"), "refused"],
  ["the protocol in lower case", withLine("GET PATH http/1.1"), "refused"],
  // For these three, Node reports only the method.
  ["RTSP with a method that HTTP has", withLine("OPTIONS PATH RTSP/1.0"), "either"],
  ["RTSP with one of its own", withLine("DESCRIBE PATH RTSP/1.0"), "refused"],
  ["the method of a radio station", withLine("SOURCE PATH ICE/1.0"), "either"],
  ["the protocol of a radio station", withLine("GET PATH ICE/1.0"), "refused"],
  ["a blank behind the protocol", withLine("GET PATH HTTP/1.1 "), "refused"],
  ["a tab behind the method", withLine("GET\tPATH HTTP/1.1"), "refused"],
  ["a tab behind the path", withLine("GET PATH\tHTTP/1.1"), "refused"],
  ["a blank before the method", withLine(" GET PATH HTTP/1.1"), "refused"],
  ["two blanks behind the path", withLine("GET PATH  HTTP/1.1"), "either"],
  ["two blanks behind the method", withLine("GET  PATH HTTP/1.1"), "either"],
  ["a blank in the path", withLine("GET PATH/a b HTTP/1.1"), "refused"],
  ["NUL in the path", withLine("GET PATH/a\x00b HTTP/1.1"), "refused"],
  ["a high byte in the path", withLine("GET PATH/\xe9 HTTP/1.1"), "refused"],
  ["a bare CR in the request line", withLine("GET PATH\rHTTP/1.1"), "refused"],
  ["a method that nobody knows", withLine("GPOST PATH HTTP/1.1"), "refused"],
  ["a method in lower case", withLine("get PATH HTTP/1.1"), "refused"],
  ["NUL in the method", withLine("GET\x00 PATH HTTP/1.1"), "refused"],
  ["no path", withLine("GET HTTP/1.1"), "refused"],
  ["an HTTP/2 preface within", withLine("PRI * HTTP/2.0"), "refused"],
  ["an empty line before the request", (id, door) => `\r\n${get(id, door)}\r\n`, { body: "" }],
  ["a length in another case", lengthy("CONTENT-LENGTH: 0", ""), { body: "", alsoSecond: true }],
  ["a coding in another case", chunked("5\r\nhello\r\n0\r\n\r\n", "transfer-encoding: CHUNKED"), { body: "hello" }],
  ["a size with zeros before it", chunked("0005\r\nhello\r\n000\r\n\r\n"), { body: "hello" }],
  ["a size in capitals", chunked("A\r\nhellohello\r\n0\r\n\r\n"), { body: "hellohello" }],
  ["extensions", chunked('5;a;b=c;d="e;f"\r\nhello\r\n0;g\r\n\r\n'), { body: "hello" }],
  ["a trailer", chunked("5\r\nhello\r\n0\r\nX: y\r\n\r\n"), { body: "hello" }],
  [
    "a coding on HTTP/1.0",
    (id, door) =>
      `POST ${door.target(`/${id}`)} HTTP/1.0\r\nHost: ${door.host}\r\n${door.lines}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    "refused",
  ],
  [
    "names with an underscore",
    lengthy("Content-Length: 5\r\nTransfer_Encoding: chunked\r\nContent_Length: 1"),
    { body: "hello", alsoSecond: true },
  ],
  [
    "a length that is nominated",
    lengthy("Content-Length: 5\r\nConnection: Content-Length"),
    { body: "hello", alsoSecond: true },
  ],
  [
    "a coding that is nominated",
    chunked("5\r\nhello\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding"),
    { body: "hello" },
  ],
  ["a Host that is nominated", withField("Connection: Host"), { body: "" }],
  [
    "a coding in disguise",
    lengthy("Content-Length: 5\r\nNango-Proxy-Transfer-Encoding: chunked"),
    { body: "hello", alsoSecond: true },
  ],
  [
    "a length in disguise",
    lengthy("Content-Length: 5\r\nNango-Proxy-Content-Length: 1"),
    { body: "hello", alsoSecond: true },
  ],
  ["more after the end", (id, door) => `${get(id, door)}Connection: close\r\n\r\n${hidden(id, door)}`, { body: "" }],
];

/** Requests with one meaning, and many with more than one. */
export function ambiguousRequests(): Attempt[] {
  return [
    ...lengths.map((field): Attempt => ({ name: JSON.stringify(field), bytes: lengthy(field), expected: "refused" })),
    ...codings.map(
      (coding): Attempt => ({
        name: `coding ${JSON.stringify(coding)}`,
        bytes: (id, door) => `${post(id, door)}Transfer-Encoding: ${coding}\r\n\r\n0\r\n\r\n${hidden(id, door)}`,
        expected: "refused",
      }),
    ),
    ...chunkBodies.map(
      ([name, body]): Attempt => ({
        name,
        bytes: (id, door) => `${chunked(body)(id, door)}${hidden(id, door)}`,
        expected: "refused",
      }),
    ),
    ...heads.map(([name, bytes, expected]): Attempt => ({ name, bytes, expected })),
  ];
}
