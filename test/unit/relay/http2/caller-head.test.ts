import { expect, it } from "vitest";
import { areCallerTrailers, callerHeadOf } from "../../../../src/relay/http2/callers/caller-head.ts";

const usual = [":method", "GET", ":scheme", "https", ":authority", "a", ":path", "/x?y"];
const headOf = (fields: string[], isAll = true) =>
  callerHeadOf({ fields, isMalformed: false, isTooLarge: false }, isAll);

it("reads a head as HTTP/1.1 has it", () => {
  const more = ["x-own", " a\t", "cookie", "b=1", "cookie", "c=2", "x-own", "d", "user-agent", "e", "user-agent", "f"];
  expect(headOf([...usual, ...more])).toEqual({
    method: "GET",
    url: "/x?y",
    rawHeaders: ["host", "a", "x-own", "a", ...more.slice(2)],
    headers: { host: "a", "x-own": "a, d", cookie: "b=1; c=2", "user-agent": "e" },
    contentLength: undefined,
  });
  expect(headOf([":method", "OPTIONS", ":scheme", "HTTP", ":path", "*", "host", "a"])?.rawHeaders).toEqual([
    "host",
    "a",
  ]);
  expect(headOf([...usual, "host", "b"])?.rawHeaders).toEqual(["host", "a", "host", "b"]);
  expect(headOf([...usual, "content-length", "3"], false)?.contentLength).toBe(3);
  expect(headOf([":method", "CONNECT", ":authority", "a:443"])).toMatchObject({ method: "CONNECT", url: "" });
});

const without = (name: string) => usual.filter((_, i) => usual[i - (i % 2)] !== name);
const instead = (name: string, value: string) => usual.map((text, i) => (usual[i - 1] === name ? value : text));

it.each<[string, string[]]>([
  ["8.3.1: no method", without(":method")],
  ["8.3.1: no scheme", without(":scheme")],
  ["8.3.1: no path", without(":path")],
  ["8.3.1: neither authority nor host", without(":authority")],
  ["8.3.1: an empty path", instead(":path", "")],
  ["8.3.1: a path that begins with no slash", instead(":path", "x")],
  ["8.3.1: a whole URL", instead(":path", "http://b/")],
  ["8.3.1: an asterisk for another method", instead(":path", "*")],
  ["8.3.1: a blank in the path", instead(":path", "/a b")],
  ["8.3.1: a blank in the method", instead(":method", "GET ")],
  ["8.3.1: a slash in the authority", instead(":authority", "a/b")],
  ["8.3.1: a user in the authority", instead(":authority", "user@a")],
  ["8.3.1: a scheme that is none", instead(":scheme", "1")],
  ["8.3: a repeated pseudo-header", [...usual.slice(0, 2), ...usual]],
  ["8.3: an unknown pseudo-header", [...usual, ":protocol", "websocket"]],
  ["8.3: a pseudo-header of responses", [":status", "200", ...usual]],
  ["8.3: a pseudo-header behind a field", [...without(":path"), "x", "y", ":path", "/"]],
  ["8.2.2: a field of the connection", [...usual, "connection", "close"]],
  ["8.2.2: a transfer coding", [...usual, "transfer-encoding", "chunked"]],
  ["8.2.2: TE with anything but trailers", [...usual, "te", "gzip"]],
  ["8.1.1: a length without a body", [...usual, "content-length", "3"]],
  ["8.1.1: two lengths", [...usual, "content-length", "0", "content-length", "0"]],
  ["8.1.1: a length that is no number", [...usual, "content-length", "+0"]],
  ["a length with a leading zero", [...usual, "content-length", "00"]],
  ["two hosts", [...usual, "host", "a", "host", "a"]],
  ["8.5: CONNECT with a path", [":method", "CONNECT", ":authority", "a:443", ":path", "/"]],
  ["8.5: CONNECT without an authority", [":method", "CONNECT", "host", "a:443"]],
])("%s is malformed", (_, fields) => {
  expect(headOf(fields)).toBeUndefined();
});

it("refuses trailers that could be taken for a head", () => {
  const are = (...fields: string[]) => areCallerTrailers({ fields, isMalformed: false, isTooLarge: false });
  expect(are("grpc-status", "0", "te", "trailers")).toBe(true);
  for (const name of [":path", "connection", "content-length", "host"]) expect(are("a", "b", name, "0")).toBe(false);
  expect(are("te", "gzip")).toBe(false);
});
