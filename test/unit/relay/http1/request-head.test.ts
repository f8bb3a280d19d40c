import { describe, expect, it } from "vitest";
import { Memo } from "../../../../src/base/memo.ts";
import { isBegunHead, knownHeadIn, parseRequestHead, textOf } from "../../../../src/relay/http1/request-head.ts";
import { below, seeded } from "../../../support/runner/seeded.ts";

const plain = "GET /proxy/x?y=z HTTP/1.1\r\nHost: localhost\r\nX-High: caf\xe9\r\nAccept:  */* \t\r\n\r\n";
const withField = (field: string) => plain.replace("Accept:  */* \t", field);

describe("an ordinary head", () => {
  it("is read with its fields as they came", () => {
    expect(parseRequestHead(plain)).toEqual({
      method: "GET",
      url: "/proxy/x?y=z",
      fields: {
        text: plain.slice(plain.indexOf("\r\n") + 2),
        rawHeaders: ["Host", "localhost", "X-High", "caf\xe9", "Accept", "*/*"],
        contentLength: 0,
        closes: false,
        memo: new Memo(),
      },
    });
  });

  it("has the length of the body, and whether the connection closes", () => {
    expect(parseRequestHead(withField("content-LENGTH: 17\r\nConnection: Close"))?.fields).toMatchObject({
      contentLength: 17,
      closes: true,
    });
    expect(parseRequestHead(withField("Connection: keep-alive"))?.fields).toMatchObject({
      closes: false,
      memo: new Memo(),
    });
  });

  it("caches repeated fields, whatever the path", () => {
    // A head is cached only at its second use.
    parseRequestHead(plain);
    const first = parseRequestHead(plain);
    expect(parseRequestHead(plain.replace("y=z", "other"))?.fields).toBe(first?.fields);
    expect(parseRequestHead(withField("Accept: text/html"))?.fields).not.toBe(first?.fields);
  });

  it("caches the fields of a thousand numbered connections, wherever the number is", () => {
    for (const after of [22, 50, 60, 62, 120, 137]) {
      const heads = Array.from({ length: 1_000 }, (_, i) => {
        const number = String(i).padStart(8, "0");
        return `GET /a HTTP/1.1\r\nHost: a\r\nConnection-Id: user-${number}\r\nB: ${"b".repeat(after)}\r\n\r\n`;
      });
      for (let times = 0; times < 4; times += 1) for (const head of heads) parseRequestHead(head);
      const before = heads.map((head) => parseRequestHead(head)?.fields);
      const again = heads.map((head) => parseRequestHead(head)?.fields);
      expect(again.filter((fields, i) => fields === before[i]).length).toBeGreaterThan(990);
    }
  });
});

it.each([
  ["HTTP/1.0", plain.replace("1.1", "1.0")],
  ["another version", plain.replace("HTTP/1.1", "HTTP/1.10")],
  ["an absolute form", plain.replace("/proxy", "http://a.test/proxy")],
  ["an asterisk", plain.replace("/proxy/x?y=z", "*")],
  ["a method that is rare", plain.replace("GET", "PROPFIND")],
  ["a preflight", plain.replace("GET", "OPTIONS")],
  ["a method in lower case", plain.replace("GET", "get")],
  ["two blanks", plain.replace("GET ", "GET  ")],
  ["a blank in the path", plain.replace("/x", "/x y")],
  ["a high byte in the path", plain.replace("/x", "/\xe9")],
  ["an empty line before it", `\r\n${plain}`],
  ["no Host", plain.replace("Host", "Hose")],
  ["two Hosts", withField("host: localhost")],
  ["a coding", withField("Transfer-Encoding: chunked")],
  ["a coding in another case", withField("TRANSFER-encoding: chunked")],
  ["an expectation", withField("Expect: 100-continue")],
  ["an upgrade", withField("Upgrade: websocket")],
  ["trailers", withField("Trailer: X")],
  ["a wish for trailers", withField("TE: trailers")],
  ["a nominated field", withField("Connection: X-High")],
  ["two wishes for the connection", withField("Connection: close\r\nConnection: close")],
  ["another proxy's connection", withField("Proxy-Connection: close")],
  ["two lengths", withField("Content-Length: 1\r\nContent-Length: 1")],
  ["a length with a sign", withField("Content-Length: +1")],
  ["a length with a zero before it", withField("Content-Length: 01")],
  ["a list of lengths", withField("Content-Length: 1, 1")],
  ["no length", withField("Content-Length:")],
  ["a length beyond what is counted", withField("Content-Length: 9999999999999999")],
  ["a blank before the colon", withField("Accept : x")],
  ["a fold", withField("Accept: x\r\n y")],
  ["a bare LF", withField("Accept: x\nY: z")],
  ["a bare CR", withField("Accept: x\ry")],
  ["NUL", withField("Accept: \0")],
  ["DEL", withField("Accept: \x7f")],
  ["no name", withField(": x")],
  ["no colon", withField("Accept")],
])("%s is not ordinary", (_, text) => {
  expect(text).not.toBe(plain);
  expect(parseRequestHead(text)).toBeUndefined();
});

/** Behind the text are bytes of an earlier read. */
function readOf(text: string): { readonly bytes: Buffer; readonly view: DataView } {
  const bytes = Buffer.alloc(text.length + plain.length, plain, "latin1");
  bytes.write(text, "latin1");
  return { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length) };
}

describe("a head that was read as bytes", () => {
  const known = (text: string) => knownHeadIn(readOf(text), text.length);
  const learn = (text: string) => {
    for (let times = 0; times < 3; times += 1) parseRequestHead(text);
  };

  it("is found by its headers once they were parsed, with the same fields", () => {
    const text = plain.replace("localhost", "known.test");
    expect(known(text)).toBeUndefined();
    learn(text);
    for (const method of ["GET", "HEAD", "POST", "PUT"]) {
      const other = text.replace("GET /proxy/x?y=z", `${method} /${"p".repeat(method.length)}`);
      const found = known(other);
      expect(found).toEqual(parseRequestHead(other));
      expect(found?.fields).toBe(parseRequestHead(other)?.fields);
      expect(found && textOf(found)).toBe(other);
    }
    for (const method of ["PATCH", "DELETE", "OPTIONS", "GETS", "GE"]) {
      expect(known(text.replace("GET", method))).toBeUndefined();
    }
  });

  it("is not found when anything precedes, follows, or is missing", () => {
    learn(plain);
    expect(known(plain)).toBeDefined();
    const { length } = plain;
    const cut = Array.from({ length }, (_, i) => knownHeadIn(readOf(plain), i));
    expect(cut.filter((one) => one !== undefined)).toEqual([]);
    for (const text of [`${plain}x`, `${plain}${plain}`, `\r\n${plain}`, `${plain}\r\n`, plain.replace("/1.1", "/1.0")])
      expect([text, known(text)]).toEqual([text, undefined]);
  });

  it("never differs from what is parsed, whatever bytes change", () => {
    const random = seeded(20_261_126);
    const heads = [
      plain,
      plain.replace("X-High", "X-Other"),
      withField("Content-Length: 5"),
      withField("Connection: close"),
    ];
    for (const head of heads) learn(head);
    let found = 0;
    for (let round = 0; round < 20_000; round += 1) {
      let text = heads[below(random, heads.length)] ?? plain;
      for (let changes = below(random, 3); changes > 0; changes -= 1) {
        const at = below(random, text.length);
        const piece = pieces[below(random, pieces.length)] ?? String.fromCharCode(below(random, 256));
        text = text.slice(0, at) + piece + text.slice(at + below(random, 3));
      }
      const one = known(text);
      if (one === undefined) continue;
      found += 1;
      expect(one).toEqual(parseRequestHead(text));
      expect(text.indexOf("\r\n\r\n")).toBe(text.length - 4);
    }
    expect(found).toBeGreaterThan(5_000);
  });
});

const pieces = ["\r\n", "\r", "\n", " ", "\r\n\r\n", "HTTP/1.1", "/", "\0", "\xff", ":", "GET "];

it("recognizes an incomplete head, cut anywhere behind its path's first slash", () => {
  const cut = Array.from({ length: plain.length }, (_, i) => plain.slice(0, i)).filter((text) => isBegunHead(text));
  // A shorter prefix is left to another reader.
  expect(cut).toHaveLength(plain.length - "GET /".length);
  for (const text of [
    "",
    "GET",
    "NONSENSE",
    "GET /x HTTP/1.1\n",
    "GET /x HTTP/1.1\r\nHost : x",
    "POST /x\r\n",
    "\r\n",
  ]) {
    expect([text, isBegunHead(text)]).toEqual([text, false]);
  }
});
