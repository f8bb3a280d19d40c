import { describe, expect, it } from "vitest";
import { ConfigMistakes, parseChangeable, parseConfig } from "../../../src/config/config.ts";
import { defaultLimits } from "../../../src/config/limits.ts";
import { defaultWebhooks } from "../../../src/config/webhooks.ts";
import { signingSecretOf } from "../../../src/core/notifications/webhook-signature.ts";
import { sealKey } from "../../support/sidecar/harness.ts";

const [first, second, third] = [1, 2, 3].map((n) => signingSecretOf(Buffer.alloc(32, n))) as [string, string, string];
const path = "/latchkey.yaml";
type Env = Readonly<Record<string, string>>;

const filesOf = (text: string, others: Env = {}) => ({
  read(at: string) {
    const found = at === path ? text : others[at];
    if (found === undefined) throw Object.assign(new Error(at), { code: "ENOENT" });
    return { text: found, mode: 0o600 };
  },
});
const read = (text: string, env: Env = {}, others: Env = {}) =>
  parseConfig({
    env: { LATCHKEY_SEAL_KEYS: sealKey, LATCHKEY_CONFIG: path, ...env },
    files: filesOf(text, others),
  });
const reread = (text: string, env: Env = {}) => parseChangeable({ path, env, files: filesOf(text) });

function mistakes(parse: () => unknown): readonly string[] {
  try {
    parse();
  } catch (error) {
    if (error instanceof ConfigMistakes) return error.mistakes;
    throw error;
  }
  return [];
}

const withForward = (forward: string) => `environments: [{ name: prod, forward: ${forward} }]`;
const env = { A: first, B: second, C: third };

describe("by variables", () => {
  it("reads the default environment's webhook address and signing secret", () => {
    const { forwardUrl, forwardSecret } = read("{}", {
      LATCHKEY_FORWARD_URL: " http://127.0.0.1:8080/hooks?a=1 ",
      LATCHKEY_FORWARD_SECRET: first,
    });
    expect([forwardUrl, forwardSecret]).toEqual(["http://127.0.0.1:8080/hooks?a=1", first]);
    expect(read("{}")).toMatchObject({ forwardUrl: undefined, forwardSecret: undefined });
    const fromFile = read("{}", { LATCHKEY_FORWARD_SECRET_FILE: "/secret" }, { "/secret": `${second}\n` });
    expect(fromFile.forwardSecret).toBe(second);
  });

  it.each([
    ["no URL", "app/hooks", "LATCHKEY_FORWARD_URL must be a URL"],
    ["another scheme", "ftp://app.example/hunter2", "LATCHKEY_FORWARD_URL must be https or http"],
    ["a password", "https://ada:hunter2@app.example", "LATCHKEY_FORWARD_URL must not contain a user name or password"],
    ["a user", "https://ada@app.example", "LATCHKEY_FORWARD_URL must not contain a user name or password"],
    ["a blank", "https://app.example/a b", "LATCHKEY_FORWARD_URL must be a URL"],
  ])("refuses a forward URL with %s, and does not quote it", (_what, url, message) => {
    const found = mistakes(() => read("{}", { LATCHKEY_FORWARD_URL: url }));
    expect(found).toEqual([message]);
    expect(found.join()).not.toContain("hunter2");
  });

  it.each([
    ["without its prefix", first.slice(6), "must begin with whsec_"],
    [
      "that is too short",
      signingSecretOf(Buffer.from("hunter2")),
      "must be whsec_ followed by base64 of 24 to 64 bytes, but has 7 bytes",
    ],
    ["that is no base64", "whsec_hunter2!", "must be whsec_ followed by padded base64"],
  ])("refuses a secret %s, and does not quote it", (_what, value, message) => {
    const found = mistakes(() => read("{}", { LATCHKEY_FORWARD_SECRET: value }));
    expect(found).toEqual([`LATCHKEY_FORWARD_SECRET ${message}`]);
    expect(found.join()).not.toMatch(/hunter2|aHVudGVyMg/);
  });

  it("refuses a secret that is given twice, or a file that is not there", () => {
    const both = { LATCHKEY_FORWARD_SECRET: first, LATCHKEY_FORWARD_SECRET_FILE: "/secret" };
    expect(mistakes(() => read("{}", both, { "/secret": first }))).toEqual([
      "LATCHKEY_FORWARD_SECRET and LATCHKEY_FORWARD_SECRET_FILE are both set; remove one of them",
    ]);
    expect(mistakes(() => read("{}", { LATCHKEY_FORWARD_SECRET_FILE: "/none" })).join()).toMatch(
      /^LATCHKEY_FORWARD_SECRET_FILE: \/none cannot be read/,
    );
  });

  it("refuses the same setting of the default environment in a variable and the file", () => {
    const text = "environments: [{ name: dev, forward: { url: https://app.example, secret: { env: A } } }]";
    const url = { A: first, LATCHKEY_FORWARD_URL: "https://else.example" };
    const secret = { A: first, LATCHKEY_FORWARD_SECRET: second };
    for (const parse of [read, reread]) {
      expect(mistakes(() => parse(text, url))).toEqual([
        'LATCHKEY_FORWARD_URL and forward.url of the environment "dev" are both set; remove one of them',
      ]);
      const both = mistakes(() => parse(text, { A: first, LATCHKEY_FORWARD_SECRET_FILE: path }));
      expect(both).toContain(
        'LATCHKEY_FORWARD_SECRET and forward.secret of the environment "dev" are both set; remove one of them',
      );
      expect(mistakes(() => parse("environments: [{ name: dev }]", { ...url, ...secret }))).toEqual([]);
      expect(mistakes(() => parse(text, secret))).toEqual([
        'LATCHKEY_FORWARD_SECRET and forward.secret of the environment "dev" are both set; remove one of them',
      ]);
      expect(mistakes(() => parse(text.replace("dev", "prod"), { ...url, ...secret }))).toEqual([]);
    }
  });
});

describe("by the file", () => {
  it("takes an environment's URLs, and one secret or up to three, the newest first", () => {
    const { environments, signingSecrets } = read(
      `environments:
  - { name: a, forward: { url: "http://localhost:3000/in", secondary: "https://audit.example", secret: { env: A } } }
  - { name: b, forward: { secret: [{ env: B }, { file: /c }, { env: A }] } }
  - { name: c, forward: { url: "https://app.example" } }
  - { name: d }`,
      env,
      { "/c": `${third}\n` },
    ).declared;
    expect(environments.map(({ forwardUrl, secondaryForwardUrl }) => [forwardUrl, secondaryForwardUrl])).toEqual([
      ["http://localhost:3000/in", "https://audit.example"],
      ["", ""],
      ["https://app.example", ""],
      ["", ""],
    ]);
    expect(signingSecrets).toEqual([
      { environment: "a", secrets: [first] },
      { environment: "b", secrets: [second, third, first] },
    ]);
  });

  it.each([
    ["{ url: 'ftp://app.example' }", /^\/latchkey\.yaml:1:41: forward\.url must be https or http$/],
    ["{ url: 'https://ada:hunter2@app.example' }", /:1:41: forward\.url must not contain a user name or password$/],
    ["{ secondary: 'file:///etc' }", /:1:41: forward\.secondary must be https or http$/],
    ["{ url: app }", /forward\.url: must be a URL$/],
    ["{ secret: whsec_hunter2 }", /forward\.secret: must be \{env: NAME\} or \{file: path\}, or a list of up to three/],
    ["{ secret: [] }", /forward\.secret: must be/],
    ["{ secret: [{ env: A }, { env: B }, { env: C }, { env: D }] }", /forward\.secret: must be/],
    ["{ secret: { env: NONE } }", /forward\.secret: the environment variable NONE is not set$/],
    ["{ secret: { env: D } }", /^\/latchkey\.yaml:1:41: forward\.secret must begin with whsec_$/],
    ["{ secret: [{ env: A }, { env: A }] }", /must not have the same forward\.secret twice$/],
  ])("refuses %s at a start and when it changes, and quotes no secret", (forward, message) => {
    for (const parse of [read, reread]) {
      const found = mistakes(() => parse(withForward(forward), { ...env, D: "hunter2-as-text" }));
      expect(found).toHaveLength(1);
      expect(found[0]).toMatch(message);
      expect(found[0]).not.toContain("hunter2");
    }
  });
});

describe("of how many, how large and how long", () => {
  it("has defaults", () => {
    const config = read("{}");
    expect(config.webhooks).toEqual({ maxWaiting: 200_000, perDestination: undefined, timeoutMs: 15_000 });
    expect(config.limits.webhookBodyBytes).toBe(5 * 1024 * 1024);
    expect(config.retention.deliveriesMs).toBe(7 * 86_400_000);
    expect([defaultWebhooks, defaultLimits]).toEqual([config.webhooks, config.limits]);
  });

  it("applies the file, at the start and after a change", () => {
    const text =
      "{ webhooks: { outbox: 5, per_destination: 2, timeout: 3s }, limits: { webhook_body_bytes: 2048 }, retention: { deliveries: 2h } }";
    const config = read(text);
    expect(config.webhooks).toEqual({ maxWaiting: 5, perDestination: 2, timeoutMs: 3_000 });
    expect(config.limits).toEqual({ ...defaultLimits, webhookBodyBytes: 2_048 });
    expect(config.retention.deliveriesMs).toBe(7_200_000);
    expect(reread(text)).toMatchObject({ webhooks: config.webhooks, retention: config.retention });
    expect(reread("webhooks: { outbox: 6 }").webhooks).toEqual({ ...defaultWebhooks, maxWaiting: 6 });
  });

  it.each([
    ["webhooks: { timeout: 99ms }", "webhooks.timeout: must be from 100ms to 5m"],
    ["webhooks: { timeout: 6m }", "webhooks.timeout: must be from 100ms to 5m"],
    ["webhooks: { outbox: 0 }", "webhooks.outbox"],
    ["webhooks: { per_destination: 1001 }", "webhooks.per_destination"],
    ["webhooks: { retries: 3 }", "webhooks.retries: unknown key"],
    ["limits: { webhook_body_bytes: 1023 }", "limits.webhook_body_bytes"],
  ])("refuses %s", (text, message) => {
    expect(mistakes(() => read(text)).join()).toContain(message);
  });
});
