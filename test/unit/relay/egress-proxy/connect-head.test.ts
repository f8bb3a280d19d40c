import { expect, it } from "vitest";
import { connectHead, readConnectAnswer } from "../../../../src/relay/egress-proxy/connect-head.ts";

const read = (text: string) => readConnectAnswer(Buffer.from(text, "latin1"));

it("reads a head only once it is complete, however it is cut", () => {
  const head = "HTTP/1.1 200 Connection established\r\nVia: 1.1 squid\r\nX-Empty:\r\n\r\n";
  for (let i = 0; i < head.length; i += 1) expect(read(head.slice(0, i)), `${i} bytes`).toBeUndefined();
  for (const rest of ["", "\x16\x03\x01", "\r\n\r\n"]) {
    expect(read(head + rest)).toEqual({ status: 200, headBytes: head.length });
  }
  expect(read("HTTP/1.0 407 Proxy Authentication Required\r\n\r\n")).toMatchObject({ status: 407 });
  expect(read("HTTP/1.1 200\r\n\r\n")).toMatchObject({ status: 200 });
});

it.each([
  ["another protocol", "SSH-2.0-x\r\n"],
  ["another protocol, from its first byte", "\x16"],
  ["HTTP/2", "HTTP/2 200\r\n\r\n"],
  ["an interim answer", "HTTP/1.1 100 Continue\r\n\r\n"],
  ["a switch of protocols", "HTTP/1.1 101 Switching Protocols\r\n\r\n"],
  ["a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"],
  ["two blanks", "HTTP/1.1  200 OK\r\n\r\n"],
  ["a bare line feed", "HTTP/1.1 200 OK\nX: y\r\n\r\n"],
  ["a bare line feed in a field", "HTTP/1.1 200 OK\r\nX: y\nZ: z\r\n\r\n"],
  ["a folded line", "HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n"],
  ["a line without a name", "HTTP/1.1 200 OK\r\n: y\r\n\r\n"],
  ["a blank before the colon", "HTTP/1.1 200 OK\r\nX : y\r\n\r\n"],
  ["a head without end", `HTTP/1.1 200 OK\r\nX: ${"y".repeat(20_000)}`],
  ["a head that is too large", `HTTP/1.1 200 OK\r\nX: ${"y".repeat(20_000)}\r\n\r\n`],
])("refuses %s", (_, text) => {
  expect(read(text)).toBe("malformed");
});

it("writes a target that a proxy can read in one way", () => {
  const head = connectHead({ host: "2001:db8::1", port: 443, authorization: undefined });
  expect(head).toMatch(
    /^CONNECT \[2001:db8::1\]:443 HTTP\/1\.1\r\nHost: \[2001:db8::1\]:443\r\nUser-Agent: [^\r]+\r\n\r\n$/,
  );
});
