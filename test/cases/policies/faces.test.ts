import http from "node:http";
import http2 from "node:http2";
import { expect, it, onTestFinished } from "vitest";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { TrafficService } from "../../../src/gen/latchkey/v1/traffic_pb.ts";
import { type ProxiedSidecar, startProvider, startProxied } from "../../support/peers/provider.ts";
import { createRandom, type Random } from "../../support/policies/random.ts";

/** `LATCHKEY_FUZZ_COUNT=100000` is the long form. */
const rounds = Number(process.env["LATCHKEY_FUZZ_COUNT"] ?? 120);

const conditions: readonly (readonly [keyof typeof PolicyEffect, string])[] = [
  ["DENY", 'request.method == "DELETE" && request.path.startsWith("/admin")'],
  ["DENY", 'request.headers["x-team"] == "red" || request.path == "/teamless"'],
  ["DENY", 'request.path.matches("^/files/[0-9]{3}$")'],
  ["DENY", '"drop" in request.query && request.query.drop.exists(v, v == "all")'],
  ["DENY", 'request.path == "/pay" && request.body.amount > 100'],
  ["DENY", 'request.path == "/big" && request.size > 20'],
  ["ALLOW", 'request.method in ["GET", "HEAD", "POST", "DELETE"] && request.raw_path.size() < 40'],
  ["LOG", 'request.method == "POST"'],
];

interface FuzzedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

function randomRequest(random: Random): FuzzedRequest {
  const method = random.of(["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD"]);
  const path = random.of([
    ...["/admin/a", "/%61dmin/a", "//admin", "/a%2Fb", "/teamless", "/files/123", "/files/12", "/pay", "/pay", "/big"],
    ...["/repos", "/repos/a", "/repos/b", "/issues", "/%C3%A9"],
    `/${"x".repeat(random.below(60))}`,
  ]);
  const query = random.of(["", "", "?drop=one&drop=all", "?dr%6Fp=all", "?drop=%zz", "?_method=delete"]);
  const headers = random.of<Record<string, string>>([
    {},
    { "x-team": "red" },
    { "x-team": "blue" },
    { "x-team": "green", accept: "*/*" },
    { "x-team": "yellow" },
    { "x-team": "blue", "x-http-method-override": "DELETE" },
  ]);
  const hasBody = method !== "GET" && method !== "HEAD";
  const body = random.of(['{"amount":1}', '{"amount":1000}', '{"amount":1,"amount":2}', "x".repeat(30), ""]);
  return { method, path: path + query, headers, body: hasBody ? body : "" };
}

type Face = (request: FuzzedRequest) => Promise<string>;

/** Returns the code of Latchkey's refusal, or `sent`. */
const verdictOf = (code: unknown): string => (typeof code === "string" ? code : "sent");

function overHttp1(running: ProxiedSidecar, agent: http.Agent, target: (path: string) => string, more = {}): Face {
  const { hostname, port } = new URL(running.data);
  return ({ method, path, headers, body }) =>
    new Promise((resolve, reject) => {
      const all = {
        ...running.proxyHeaders,
        ...headers,
        ...more,
        ...(body !== "" && { "content-length": body.length }),
      };
      const request = http.request({ hostname, port, agent, method, path: target(path), headers: all }, (answer) => {
        answer.resume();
        answer.on("end", () => resolve(verdictOf(answer.headers["latchkey-error"])));
      });
      request.on("error", reject);
      request.end(body);
    });
}

function overHttp2(running: ProxiedSidecar): Face {
  const session = http2.connect(running.data);
  onTestFinished(() => session.destroy());
  return ({ method, path, headers, body }) =>
    new Promise((resolve, reject) => {
      const names = { ":method": method, ":path": `/proxy${path}`, ...running.proxyHeaders, ...headers };
      const fields = { ...names, ...(body !== "" && { "content-length": body.length }) };
      const stream = session.request(fields, { endStream: body === "" });
      let code: unknown;
      stream.on("response", (answer) => {
        code = answer["latchkey-error"];
      });
      stream.on("error", reject);
      stream.on("close", () => resolve(verdictOf(code)));
      stream.resume();
      if (body !== "") stream.end(body);
    });
}

function overRpc(running: ProxiedSidecar): Face {
  const traffic = running.client(TrafficService, running.proxyHeaders["authorization"]?.slice("Bearer ".length));
  return async ({ method, path, headers, body }) => {
    const { problem } = await traffic.sendRequest({
      connection: { environment: "dev", integration: "here", id: "ada" },
      method,
      path,
      headers: Object.entries(headers).map(([name, value]) => ({ name, value: Buffer.from(value) })),
      body: Buffer.from(body),
    });
    return verdictOf(problem?.code);
  };
}

it("comes to the same verdict on every face", { timeout: 3_600_000 }, async () => {
  const provider = await startProvider((request, socket) => {
    socket.write(
      request.line.startsWith("HEAD")
        ? "HTTP/1.1 204 No Content\r\n\r\n"
        : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    );
  });
  const running = await startProxied(provider.port);
  const policies = running.client(PolicyService);
  for (const [effect, condition] of conditions) {
    await policies.createPolicy({ policy: { environment: "dev", effect: PolicyEffect[effect], condition } });
  }
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const other = new http.Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => {
    agent.destroy();
    other.destroy();
  });
  const faces: Readonly<Record<string, Face>> = {
    "fast lane": overHttp1(running, agent, (path) => `/proxy${path}`),
    // The fast lane does not take a request that names a hop-by-hop field.
    "general lane": overHttp1(running, other, (path) => `/proxy${path}`, { connection: "keep-alive, x-none" }),
    "absolute form": overHttp1(running, other, (path) => `https://127.0.0.1:${provider.port}${path}`),
    "HTTP/2": overHttp2(running),
    SendRequest: overRpc(running),
  };
  await expect
    .poll(() => faces["fast lane"]?.({ method: "PUT", path: "/a", headers: { "x-team": "blue" }, body: "" }), {
      timeout: 15_000,
    })
    .toBe("denied_by_policy");
  const random = createRandom(31);
  const seen = new Map<string, number>();
  for (let i = 0; i < rounds; i += 1) {
    const request = randomRequest(random);
    const verdicts: Record<string, string> = {};
    for (const [name, face] of Object.entries(faces)) verdicts[name] = await face(request);
    const [first = ""] = Object.values(verdicts);
    seen.set(first, (seen.get(first) ?? 0) + 1);
    expect({ request, verdicts }).toEqual({
      request,
      verdicts: Object.fromEntries(Object.keys(faces).map((name) => [name, first])),
    });
  }
  expect(seen.get("denied_by_policy")).toBeGreaterThan(rounds / 10);
  expect(seen.get("sent")).toBeGreaterThan(rounds / 20);
});
