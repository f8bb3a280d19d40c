import { expect, it } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { answersIn, openWire, sidecarOfFile, statusOf } from "../../support/sidecar/door.ts";
import { adminKey, secretKey } from "../../support/sidecar/harness.ts";

const running = sidecarOfFile({
  env: { LATCHKEY_PUBLIC_LISTEN: "127.0.0.1:0", LATCHKEY_FORWARD_PROXY_LISTEN: "127.0.0.1:0" },
});

/** Lines of a request that has no method of its own path: every listener answers it with 404 or less. */
const second = "GET /second HTTP/1.1\r\nHost: localhost\r\n\r\n";
const keep = "Host: localhost\r\nConnection: keep-alive\r\n";

/** Each is followed by another request in the same packet, which Node has parsed before the first is answered. */
const malformed: readonly (readonly [string, string])[] = [
  ["a request line that ends in a bare line feed", `GET /first\n${keep}\r\n`],
  ["a line feed within the path", `GET /fir\nst: HTTP/1.1\r\n${keep}\r\n`],
  ["HTTP/0.9", `GET /first\r\n${keep}\r\n`],
  ["HTTP/0.9 by number", `GET /first HTTP/0.9\r\n${keep}\r\n`],
  ["HTTP/2.0 as text", `GET /first HTTP/2.0\r\n${keep}\r\n`],
  ["RTSP", `DESCRIBE /first RTSP/1.0\r\n${keep}\r\n`],
  ["another coding before chunked", `POST /first HTTP/1.1\r\n${keep}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
  ["chunked twice", `POST /first HTTP/1.1\r\n${keep}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n`],
  [
    "chunked in two lines",
    `POST /first HTTP/1.1\r\n${keep}Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  ["chunked in HTTP/1.0", `POST /first HTTP/1.0\r\n${keep}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ["a length with a zero before it", `POST /first HTTP/1.1\r\n${keep}Content-Length: 00\r\n\r\n`],
  [
    "another coding and an expectation",
    `POST /first HTTP/1.1\r\n${keep}Expect: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
  ],
];

it.each(["data", "public", "control", "ops", "forwardProxy"] as const)(
  "refuses what another parser could read differently at the %s listener, and reads no further",
  async (door) => {
    const address = running().sidecar.addresses[door] ?? "";
    const answers = await Promise.all(
      malformed.map(async ([name, bytes]) => {
        const wire = await openWire(address);
        wire.send(bytes + second);
        const text = await wire.ended;
        // What Node's parser refuses at the ops listener has no code.
        const isNamed = door === "ops" || /latchkey-error: malformed_request\r\n/.test(text);
        return [name, answersIn(text), statusOf(text), isNamed];
      }),
    );
    expect(answers).toEqual(malformed.map(([name]) => [name, 1, 400, true]));
    // Both of two good ones are answered; the control listener ends the connection after a call for no method.
    if (door === "control") return;
    const wire = await openWire(address);
    wire.send(second + second);
    expect(answersIn(await wire.until((text) => answersIn(text) === 2))).toBe(2);
    wire.socket.destroy();
  },
);

const post = (path: string, key: string, body: object) => {
  const text = JSON.stringify(body);
  const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n`;
  return `${head}Content-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
};

it("does nothing of what a refused request hides", async () => {
  const { data, control, rest, client } = running();
  const environments = client(EnvironmentService);
  const hidden = async (address: string, name: string, bytes: string) => {
    const wire = await openWire(address);
    wire.send(bytes);
    return [name, statusOf(await wire.ended)];
  };
  const createKey = "/latchkey.v1.EnvironmentService/CreateKey";
  const before = (await environments.listKeys({ environment: "dev" })).keys.length;
  const outcomes = await Promise.all(
    malformed.flatMap(([name, bytes], i) => [
      hidden(
        data,
        name,
        bytes + post("/integrations", secretKey, { unique_key: `hidden-${i}`, provider: "example-api-key" }),
      ),
      hidden(control, name, bytes + post(createKey, adminKey, { environment: "dev" })),
    ]),
  );
  expect(outcomes).toEqual(
    malformed.flatMap(([name]) => [
      [name, 400],
      [name, 400],
    ]),
  );
  // A request that follows is answered after those before it.
  const { body } = await rest("GET", "/integrations");
  expect(JSON.stringify(body)).not.toContain("hidden-");
  expect((await environments.listKeys({ environment: "dev" })).keys).toHaveLength(before);
});

it.each([
  ["a body", "Content-Length: 5\r\n\r\nhello"],
  ["chunks", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
])("refuses CONNECT with %s, which has none", async (_, rest) => {
  const wire = await openWire(running().sidecar.addresses.forwardProxy ?? "");
  wire.send(`CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n${rest}`);
  const text = await wire.ended;
  expect([answersIn(text), statusOf(text)]).toEqual([1, 400]);
});
