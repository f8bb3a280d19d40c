/** Name and value of each field, in order. */
export type FieldPairs = readonly (readonly [name: string, value: string])[];

interface Base {
  readonly path: string;
  readonly authority: string;
  /** Fields that every request of the way has. */
  readonly more: FieldPairs;
}

/** A head that has nothing wrong. */
export const usual = ({ path, authority, more }: Base): FieldPairs => [
  [":method", "GET"],
  [":scheme", "http"],
  [":path", path],
  [":authority", authority],
  ...more,
];
const without = (name: string) => (base: Base) => usual(base).filter(([one]) => one !== name);
const and = (name: string, value: string) => (base: Base) => [...usual(base), [name, value] as const];
const instead = (name: string, valueFrom: (base: Base) => string) => (base: Base) =>
  usual(base).map(([one, value]) => [one, one === name ? valueFrom(base) : value] as const);

/** Heads that RFC 9113 calls malformed, and those whose target HTTP/1.1 could not carry as one. */
export const malformedHeads: Readonly<Record<string, (base: Base) => FieldPairs>> = {
  "no method": without(":method"),
  "no scheme": without(":scheme"),
  "no path": without(":path"),
  "no authority": without(":authority"),
  "an empty path": instead(":path", () => ""),
  "a path without a slash": instead(":path", ({ path }) => path.slice(1)),
  "a whole URL": instead(":path", ({ path }) => `http://evil.test${path}`),
  "a blank in the path": instead(":path", ({ path }) => `${path} HTTP/1.1`),
  "a line break in the path": instead(":path", ({ path }) => `${path}\r\nX: y`),
  "a user in the authority": instead(":authority", ({ authority }) => `user@${authority}`),
  "another authority": instead(":authority", () => "evil.test"),
  "two hosts": and("host", "evil.test"),
  "two methods": and(":method", "POST"),
  "two paths": and(":path", "/other"),
  "an unknown pseudo-header": and(":protocol", "websocket"),
  "a pseudo-header of responses": and(":status", "200"),
  "a field of the connection": and("connection", "close"),
  "Keep-Alive": and("keep-alive", "timeout=5"),
  "Proxy-Connection": and("proxy-connection", "keep-alive"),
  "an upgrade": and("upgrade", "h2c"),
  "a transfer coding": and("transfer-encoding", "chunked"),
  "another TE": and("te", "gzip"),
  "two lengths": (base) => [...usual(base), ["content-length", "0"], ["content-length", "1"]],
  "a length that is no number": and("content-length", "0x0"),
  "a length and no body": and("content-length", "5"),
};
