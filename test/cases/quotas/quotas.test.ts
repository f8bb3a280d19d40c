import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { allowPrivateFor } from "../../../src/dev/sandbox/providers.ts";
import { startLimitedProvider } from "../../support/peers/limited-provider.ts";
import { connectLimited, limitedSettings, offerLoad } from "../../support/peers/offered-load.ts";
import { startProvider } from "../../support/peers/provider.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { secretKey, startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

describe.skipIf(lacks("postgres"))("three replicas", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it("keep a provider's limit together, use nearly all of it, and let interactive requests pass first", async () => {
    const provider = await startLimitedProvider();
    onTestFinished(() => provider.close());
    const { allowPrivate, file } = limitedSettings(provider);
    const shared = {
      files: { "/l.yaml": file },
      env: {
        LATCHKEY_ALLOW_PRIVATE: allowPrivate,
        LATCHKEY_CONFIG: "/l.yaml",
        LATCHKEY_STORE: server.storeUrl("quotas"),
      },
    };
    const replicas = await Promise.all(Array.from({ length: 3 }, () => startTestSidecar(shared)));
    const [first] = replicas;
    if (first === undefined) throw new Error("none started");
    await connectLimited({ data: first.data, key: secretKey });
    const load = {
      key: secretKey,
      replicas,
      provider,
      warmUpMs: 2_500,
      lengthMs: 3_000,
      background: 400,
      interactive: 30,
    };
    // On a busy machine some of the 100 in a second are missed; the bench `quota` shows how many pass on a quiet one.
    let isGood = false;
    for (let attempt = 0; attempt < 4 && !isGood; attempt += 1) {
      const elapsed = startStopwatch();
      const { passed, interactiveP99Ms, interactiveRefused, refusedPart } = await offerLoad(load);
      // These hold however busy it is.
      expect(refusedPart).toBeLessThanOrEqual(0.001);
      expect(interactiveRefused).toBe(0);
      isGood = passed > 75 * (elapsed.ms / elapsed.passedMs) && interactiveP99Ms - elapsed.lateMs < 400;
    }
    expect(isGood).toBe(true);
  });
});

it("sends nothing until the provider wants requests again, by its headers", async () => {
  const sentAt: number[] = [];
  const provider = await startProvider((_, socket) => {
    sentAt.push(performance.now());
    const left = sentAt.length === 1 ? "X-Left: 0\r\nX-Reset: 1\r\n" : "";
    socket.write(`HTTP/1.1 200 OK\r\n${left}Content-Length: 2\r\n\r\n{}`);
  });
  const description = {
    name: "told",
    api_key: { header: "x-key" },
    proxy: { base_url: `https://127.0.0.1:${provider.port}` },
    quota: { owner: "connection", remaining_header: "x-left", reset_header: "x-reset" },
  };
  const { rest }: TestSidecar = await startTestSidecar({
    env: { LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(`http://127.0.0.1:${provider.port}`), LATCHKEY_CONFIG: "/l.yaml" },
    files: { "/l.yaml": JSON.stringify({ providers: [description] }) },
  });
  await rest("POST", "/integrations", { body: { unique_key: "told", provider: "told" } });
  const credentials = { type: "API_KEY", apiKey: "k" };
  for (const connection_id of ["ada", "bob"]) {
    await rest("POST", "/connections", { body: { connection_id, provider_config_key: "told", credentials } });
  }
  const call = async (id: string) =>
    (await rest("GET", "/proxy/x", { headers: { "provider-config-key": "told", "connection-id": id } })).status;
  expect(await call("ada")).toBe(200);
  const elapsed = startStopwatch();
  // Another connection has a count of its own.
  expect(await call("bob")).toBe(200);
  expect(elapsed.ms).toBeLessThan(500);
  expect(await call("ada")).toBe(200);
  expect((sentAt[2] ?? 0) - (sentAt[0] ?? 0)).toBeGreaterThan(900);
});
