import type { Answering } from "../peers/provider.ts";

/** A request to a provider that comes by any of the ways. */
export interface OddRequest {
  /** Default: `GET`. */
  readonly method?: string;
  readonly path?: string;
  readonly version?: string;
  readonly lines?: readonly string[];
  /** What follows the head. */
  readonly body?: string;
}

const webSocket = ["Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"];
const asksForWebSocket = ["Connection: Upgrade", ...webSocket];
const chunked = "Transfer-Encoding: chunked";

/** Requests of the suites `request`, `upgrade`, `egress` and `reflection`, by what they try. */
export const oddRequests: Readonly<Record<string, OddRequest>> = {
  // Methods, framing and fields.
  ...Object.fromEntries(
    ["DELETE", "OPTIONS", "HEAD", "PATCH", "PROPFIND", "QUERY", "PURGE", "TRACE", "SMUGGLE", "get"].map((method) => [
      method,
      { method },
    ]),
  ),
  "OPTIONS at its last hop": { method: "OPTIONS", lines: ["Max-Forwards: 0"] },
  "a body in a GET": { lines: ["Content-Length: 5"], body: "hello" },
  "a body in pieces": { method: "POST", lines: [chunked], body: "5\r\nhello\r\n0\r\n\r\n" },
  "a trailer": { method: "POST", lines: [chunked], body: "5\r\nhello\r\n0\r\nX-Trailer: y\r\nHost: evil.test\r\n\r\n" },
  "two lengths": { method: "POST", lines: ["Content-Length: 5", "Content-Length: 5"], body: "hello" },
  "a length and pieces": { method: "POST", lines: ["Content-Length: 5", chunked], body: "0\r\n\r\n" },
  "a length with a zero": { method: "POST", lines: ["Content-Length: 05"], body: "hello" },
  "another coding": { method: "POST", lines: ["Transfer-Encoding: gzip, chunked"], body: "0\r\n\r\n" },
  "pieces that are none": { method: "POST", lines: [chunked], body: "x\r\nhello" },
  "100 Continue": { method: "POST", lines: ["Expect: 100-continue", "Content-Length: 5"], body: "hello" },
  "another expectation": { method: "POST", lines: ["Expect: foo", "Content-Length: 5"], body: "hello" },
  "HTTP/1.0": { version: "1.0" },
  "HTTP/3.0": { version: "3.0" },
  "hop-by-hop fields": { lines: ["Connection: close, X-Drop", "X-Drop: 1", "TE: trailers", "Keep-Alive: 5"] },
  "a nominated credential": { lines: ["Connection: close, X-Api-Key", "X-Api-Key: mine"] },
  "the credential in disguise": { lines: ["X_Api_Key: mine", "Nango-Proxy-X-Api-Key: mine"] },
  "fields for other hosts": { lines: ["Cookie: a=b", "Forwarded: for=x", "X-Real-IP: x", "X-Forwarded-Host: x"] },
  "fields of latchkey": { lines: ["Retries: 0", "Latchkey-Priority: background"] },
  "wrong fields of latchkey": { lines: ["Retries: many"] },
  "a folded line": { lines: ["X-A: b", " c"] },
  "a space before the colon": { lines: ["X-A : b"] },
  "a bare line feed": { lines: ["X-A: b\nX-B: c"] },
  "a null byte": { lines: ["X-A: b\0c"] },
  "a repeated key": { lines: ["Latchkey-Key: a", "Latchkey-Key: b"] },
  "a page of another origin": { lines: ["Origin: https://evil.test"] },
  "a page's request": { lines: ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"] },
  // Answers of providers that are none.
  "a redirect elsewhere": { path: "/redirect?https://evil.test/x" },
  "an answer that is cut": { path: "/cut" },
  "an answer that is none": { path: "/nonsense" },
  "an end without an answer": { path: "/closes" },
  "an answer with two lengths": { path: "/two-lengths" },
  // Upgrades.
  "a WebSocket": { path: "/live", lines: asksForWebSocket },
  "a WebSocket with a short key": { path: "/live", lines: [...asksForWebSocket.slice(0, 2), "Sec-WebSocket-Key: x"] },
  "a WebSocket without a key": { path: "/live", lines: ["Connection: Upgrade", "Upgrade: websocket"] },
  "a WebSocket with a body": { path: "/live", lines: [...asksForWebSocket, "Content-Length: 3"], body: "abc" },
  "a WebSocket in pieces": { path: "/live", lines: [...asksForWebSocket, chunked] },
  "a WebSocket with bytes behind": { path: "/live", lines: asksForWebSocket, body: "GET /x HTTP/1.1\r\n\r\n" },
  "a WebSocket of a page": { path: "/live", lines: [...asksForWebSocket, "Origin: https://evil.test"] },
  "a WebSocket by POST": { method: "POST", path: "/live", lines: asksForWebSocket },
  "a WebSocket over HTTP/1.0": { version: "1.0", path: "/live", lines: asksForWebSocket },
  "a WebSocket that is refused": { path: "/closes", lines: asksForWebSocket },
  "another protocol": { lines: ["Connection: Upgrade", "Upgrade: TLS/1.0"] },
  "one of two protocols": { lines: ["Connection: Upgrade", "Upgrade: websocket, h2c"] },
  "HTTP/2 by upgrade": { lines: ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"] },
  "an upgrade to nothing": { lines: ["Connection: Upgrade, close"] },
  // Answers that show the credential.
  ...Object.fromEntries(
    ["/echo", "/echo-field", "/echo-reason", "/echo-location", "/echo-hint", "/echo-trailer"].map((path) => [
      path,
      { path, lines: ["Accept-Encoding: gzip"] },
    ]),
  ),
  "a part of the credential": { path: "/echo", lines: ["Range: bytes=0-5"] },
};

const accepted =
  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/** What a provider answers to a path; it shows this credential. */
export const answeringOddly = (secret: string): Answering => {
  const answers: Readonly<Record<string, string>> = {
    "/cut": "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
    "/nonsense": "HTP/1.1 200 OK\r\n\r\n",
    "/two-lengths": "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "/closes": "",
    "/live": accepted,
    "/echo": `HTTP/1.1 200 OK\r\nContent-Length: ${secret.length}\r\n\r\n${secret}`,
    "/echo-field": `HTTP/1.1 200 OK\r\nX-Debug: ${secret}\r\nContent-Length: 2\r\n\r\nok`,
    "/echo-reason": `HTTP/1.1 200 ${secret}\r\nContent-Length: 0\r\n\r\n`,
    "/echo-location": `HTTP/1.1 302 Found\r\nLocation: https://evil.test/${secret}\r\nContent-Length: 0\r\n\r\n`,
    "/echo-hint": `HTTP/1.1 103 Early Hints\r\nLink: </${secret}>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`,
    "/echo-trailer": `HTTP/1.1 200 OK\r\n${chunked}\r\n\r\n2\r\nok\r\n0\r\nX-Key: ${secret}\r\n\r\n`,
  };
  return ({ line }, socket) => {
    const [method = "", path = ""] = line.split(" ");
    const to = /^\/redirect\?(.*)$/.exec(path)?.[1];
    const moved = `HTTP/1.1 302 Found\r\nLocation: ${to}\r\nContent-Length: 0\r\n\r\n`;
    const body = method === "HEAD" ? "" : "ok";
    socket.write(
      to === undefined ? (answers[path] ?? `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n${body}`) : moved,
      "latin1",
    );
    if (["/cut", "/closes"].includes(path)) socket.end();
  };
};
