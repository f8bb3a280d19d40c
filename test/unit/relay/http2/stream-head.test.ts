import { expect, it } from "vitest";
import { areTrailers, headOfStream, streamHeadOf } from "../../../../src/relay/http2/stream-head.ts";

const blockOf = (fields: string[]) => ({ fields, isMalformed: false, isTooLarge: false });
const read = (fields: string[], { isHead = false, isAll = false } = {}) =>
  headOfStream({ block: blockOf(fields), isHead, isAll });

it.each<[string, string[], boolean]>([
  ["no status", ["a", "b"], false],
  ["an empty block", [], false],
  ["two statuses", [":status", "200", ":status", "200"], false],
  ["a status behind another field", ["a", "b", ":status", "200"], false],
  ["another pseudo-header", [":status", "200", ":path", "/"], false],
  ["a status of two digits", [":status", "20"], false],
  ["a switch of protocols", [":status", "101"], false],
  ["a header of HTTP/1.1 connections", [":status", "200", "connection", "close"], false],
  ["two lengths", [":status", "200", "content-length", "1", "content-length", "1"], false],
  ["a length that is no number", [":status", "200", "content-length", "+1"], false],
  ["a length of a response that has ended", [":status", "200", "content-length", "1"], true],
  ["a length of 204", [":status", "204", "content-length", "1"], false],
  ["a length of 103", [":status", "103", "content-length", "0"], false],
])("refuses a response with %s", (_what, fields, isAll) => {
  expect(read(fields, { isAll })).toBeUndefined();
});

it("refuses a response that the decoder found malformed", () => {
  const block = { ...blockOf([":status", "200"]), isMalformed: true };
  expect(headOfStream({ block, isHead: false, isAll: false })).toBeUndefined();
  expect(areTrailers({ ...block, fields: [] })).toBe(false);
});

it("reads lengths, also of responses without content, and drops blanks around values", () => {
  const length = [":status", "200", "content-length", "5"];
  expect(read(length)?.framing).toBe(5);
  expect(read(length, { isHead: true, isAll: true })).toMatchObject({ framing: "none", fields: length.slice(2) });
  expect(read([":status", "304", "content-length", "5"], { isAll: true })?.framing).toBe("none");
  expect(read([":status", "204", "content-length", "0"])?.fields).toEqual([]);
  expect(read([":status", "200", "a", " b; ", "c", "", "te", "x"])?.fields).toEqual(["a", "b;", "c", ""]);
});

it("refuses trailers with pseudo-headers, lengths, or headers of connections", () => {
  expect(areTrailers(blockOf(["grpc-status", "0"]))).toBe(true);
  for (const name of [":status", "content-length", "transfer-encoding"])
    expect(areTrailers(blockOf([name, "0"]))).toBe(false);
});

it("refuses to send a header that HTTP/2 does not have", () => {
  const head = (line: string) => `GET /x HTTP/1.1\r\nHost: a\r\n${line}\r\n\r\n`;
  expect(streamHeadOf(head("X-Own: b "), "https")).toEqual([
    ...[":method", "GET", ":scheme", "https", ":authority", "a", ":path", "/x", "x-own", "b", "te", "trailers"],
  ]);
  expect(() => streamHeadOf(head("Upgrade: h2c"), "https")).toThrow("upgrade");
});
