import { createHash, createHmac, generateKeyPairSync, hash, type KeyObject, sign } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import Stripe from "stripe";
import { describe, expect, it } from "vitest";
import type { SignerKey } from "../../../../src/core/notifications/jwt.ts";
import { isAccepted, proofOf, wantsWebhookSecret, webhookSecret } from "../../../../src/core/notifications/proof.ts";
import type { Proof } from "../../../../src/core/notifications/schemes/scheme.ts";
import { type SignatureRules, SignatureRulesSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";
import { loadCatalogue } from "../../../../src/providers/catalogue.ts";
import { knownRules, randomBytes, reading } from "../../../support/wire/notifications.ts";

const url = "https://hooks.example/webhook/e0f1/hub%3Aspot%40eu";
const nowMs = Date.parse("2026-11-21T12:00:00Z");
const seconds = String(nowMs / 1000);

interface Case {
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly query?: string;
  readonly secret: string;
  readonly url?: string;
  readonly nowMs?: number;
  readonly expected?: string;
  readonly keys?: readonly SignerKey[];
}

async function prove(rules: SignatureRules | undefined, one: Case): Promise<Proof> {
  return proofOf({
    rules,
    reading: reading({ headers: one.headers, body: one.body ?? "", query: one.query ?? "" }),
    method: "POST",
    url: one.url ?? `${url}${one.query === undefined ? "" : `?${one.query}`}`,
    secret: one.secret,
    expected: one.expected,
    keys: async () => one.keys ?? [],
    nowMs: one.nowMs ?? nowMs,
  });
}

const of = (name: string, one: Case) => prove(knownRules(name).signature, one);
const by = (rules: MessageInitShape<typeof SignatureRulesSchema>, one: Case) =>
  prove(create(SignatureRulesSchema, rules), one);
const reasonOf = async (proof: Promise<Proof>) => {
  const outcome = await proof;
  return outcome.proven ? "proven" : outcome.reason;
};
const mac = (algorithm: string, secret: string | Uint8Array, text: string) =>
  createHmac(algorithm, secret).update(text);

const slackBody =
  "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar" +
  "&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com" +
  "%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d1" +
  "0d2c447fce8b6703c";
const formType = { "content-type": "application/x-www-form-urlencoded" };
const twilioUrl = "https://mycompany.com/myapp.php?foo=1&bar=2";

/** Vectors that the providers publish. */
const published: readonly (readonly [string, Case])[] = [
  [
    "github",
    {
      headers: { "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17" },
      body: "Hello, World!",
      secret: "It's a Secret to Everybody",
    },
  ],
  [
    "slack",
    {
      headers: {
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        "x-slack-request-timestamp": "1531420618",
      },
      body: slackBody,
      secret: "8f742231b10e8888abcd99yyyzzz85a5",
      nowMs: 1_531_420_618_000,
    },
  ],
  [
    "twilio",
    {
      headers: { ...formType, "x-twilio-signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8=" },
      body: "CallSid=CA1234567890ABCDE&To=%2B18005551212&Digits=1234&From=%2B14158675309&Caller=%2B14158675309",
      url: twilioUrl,
      secret: "12345",
    },
  ],
];

/** Signatures made here by each provider's documentation. */
const made: readonly (readonly [string, Case])[] = [
  [
    "stripe",
    {
      headers: {
        // Made by Stripe's own library.
        "stripe-signature": new Stripe("sk_test_x").webhooks.generateTestHeaderString({
          payload: '{"id":"evt_1"}',
          secret: "whsec_stripe",
          timestamp: nowMs / 1000,
        }),
      },
      body: '{"id":"evt_1"}',
      secret: "whsec_stripe",
    },
  ],
  [
    "hubspot",
    {
      headers: {
        "x-hubspot-request-timestamp": String(nowMs),
        "x-hubspot-signature-v3": mac(
          "sha256",
          "client",
          `POSThttps://hooks.example/webhook/e0f1/hub:spot@eu[{"portalId":7}]${nowMs}`,
        ).digest("base64"),
      },
      body: '[{"portalId":7}]',
      secret: "client",
    },
  ],
  [
    "shopify",
    { headers: { "x-shopify-hmac-sha256": mac("sha256", "s", "{}").digest("base64") }, body: "{}", secret: "s" },
  ],
  ["linear", { headers: { "linear-signature": mac("sha256", "s", "{}").digest("hex") }, body: "{}", secret: "s" }],
  [
    "notion",
    { headers: { "x-notion-signature": `sha256=${mac("sha256", "s", "{}").digest("hex")}` }, body: "{}", secret: "s" },
  ],
  [
    "jira",
    { headers: { "x-hub-signature": `sha256=${mac("sha256", "s", "{}").digest("hex")}` }, body: "{}", secret: "s" },
  ],
  ["asana", { headers: { "x-hook-signature": mac("sha256", "s", "{}").digest("hex") }, body: "{}", secret: "s" }],
  [
    "airtable",
    {
      headers: {
        "x-airtable-content-mac": `hmac-sha256=${mac("sha256", Buffer.from("airtable's key"), "{}").digest("hex")}`,
      },
      body: "{}",
      secret: Buffer.from("airtable's key").toString("base64"),
    },
  ],
  [
    "zendesk",
    {
      headers: {
        "x-zendesk-webhook-signature-timestamp": "2026-11-21T12:00:00Z",
        "x-zendesk-webhook-signature": mac("sha256", "s", "2026-11-21T12:00:00Z{}").digest("base64"),
      },
      body: "{}",
      secret: "s",
    },
  ],
  [
    "twilio",
    (() => {
      const body = '{"property":"value"}';
      const query = `bodySHA256=${createHash("sha256").update(body).digest("hex")}`;
      const signature = mac("sha1", "token", `${url}?${query}`).digest("base64");
      return {
        headers: { "content-type": "application/json", "x-twilio-signature": signature },
        body,
        query,
        secret: "token",
      };
    })(),
  ],
];

describe.each([...published, ...made])("a webhook of %s", (name, one) => {
  const { signature } = knownRules(name);
  const field = signature?.header ?? "";

  it("is believed", async () => {
    expect(await of(name, one)).toEqual({ proven: true });
  });

  it("is believed with either secret while one is exchanged for another", async () => {
    expect(await of(name, { ...one, secret: `b3RoZXI=\n${one.secret}\r\n` })).toEqual({ proven: true });
  });

  it("is refused with any byte of its body flipped, one left out or one more", async () => {
    const body = Buffer.from(one.body ?? "");
    for (let at = 0; at < body.length; at += Math.ceil(body.length / 40)) {
      const flipped = Buffer.from(body);
      flipped[at] = (flipped[at] ?? 0) ^ 1;
      expect(isAccepted(await of(name, { ...one, body: flipped.toString("latin1") }))).toBe(false);
    }
    expect(isAccepted(await of(name, { ...one, body: body.subarray(1).toString() }))).toBe(false);
    expect(isAccepted(await of(name, { ...one, body: `${body}x` }))).toBe(false);
  });

  it("W19 is refused without its signature, with a wrong one, and with one of another length", async () => {
    const sent = one.headers[field] ?? "";
    const { [field]: _, ...without } = one.headers;
    expect(await reasonOf(of(name, { ...one, headers: without }))).toBe("unsigned");
    const wrong = [
      sent.slice(0, -3),
      `${sent}aa`,
      "",
      "x",
      signature?.prefix ?? "",
      `${sent}, ${sent}`,
      "é".repeat(64),
    ];
    for (const signature of wrong) {
      // Stripe's header is a list, which may repeat a signature.
      if (name === "stripe" && signature === `${sent}, ${sent}`) continue;
      const outcome = await reasonOf(of(name, { ...one, headers: { ...one.headers, [field]: signature } }));
      expect({ signature, outcome }).toEqual({
        signature,
        outcome: expect.stringMatching(/^(unsigned|wrong_signature)$/),
      });
    }
    const at = sent.length - 4;
    const flipped = sent.slice(0, at) + (sent[at] === "0" ? "1" : "0") + sent.slice(at + 1);
    expect(await reasonOf(of(name, { ...one, headers: { ...one.headers, [field]: flipped } }))).toBe("wrong_signature");
  });

  it("is refused with another secret or an invalid one; accepted without a secret, but not verified", async () => {
    expect(await reasonOf(of(name, { ...one, secret: "b3RoZXI=" }))).toBe("wrong_signature");
    expect(await reasonOf(of(name, { ...one, secret: "\n" }))).toBe("unusable_secret");
    const without = await of(name, { ...one, secret: "" });
    expect(without).toEqual({ proven: false, reason: "no_secret" });
    expect(isAccepted(without)).toBe(true);
  });
});

it("holds a URL that is signed to the last character", async () => {
  const signed = ["hubspot", "twilio"].map(
    (name) => [name, [...published, ...made].find(([one]) => one === name)?.[1]] as const,
  );
  for (const [name, one] of signed) {
    if (one === undefined) throw new Error(`there is no vector of ${name}`);
    expect(await reasonOf(of(name, { ...one, url: `${one.url ?? url}x` }))).toBe("wrong_signature");
  }
});

it("writes a form as Twilio does: by name, then by value, and each pair once", async () => {
  const signature = mac("sha1", "token", `${url}a0a1ab`).digest("base64");
  const headers = { ...formType, "x-twilio-signature": signature };
  expect(await of("twilio", { headers, body: "a=1&ab=&a=1&a=0", secret: "token" })).toEqual({ proven: true });
});

it("refuses a body of Twilio's that the signature does not cover", async () => {
  const signature = mac("sha1", "token", url).digest("base64");
  const headers = { "content-type": "application/json", "x-twilio-signature": signature };
  expect(await of("twilio", { headers, secret: "token" })).toEqual({ proven: true });
  expect(await reasonOf(of("twilio", { headers, body: "{}", secret: "token" }))).toBe("unsigned");
});

it("holds a time that is signed to the tolerance, on both sides", async () => {
  const one = made.find(([name]) => name === "stripe")?.[1];
  if (one === undefined) throw new Error("there is no vector of stripe");
  const at = async (offsetMs: number) => reasonOf(of("stripe", { ...one, nowMs: nowMs + offsetMs }));
  expect(await at(300_000)).toBe("proven");
  expect(await at(300_001)).toBe("too_old");
  expect(await at(-300_000)).toBe("proven");
  expect(await at(-300_001)).toBe("from_the_future");
  for (const timestamp of ["abc", "-1", "1e9", "9".repeat(40)]) {
    const v1 = mac("sha256", "s", `${timestamp}.{}`).digest("hex");
    const headers = { "stripe-signature": `t=${timestamp},v1=${v1}` };
    expect(isAccepted(await of("stripe", { headers, body: "{}", secret: "s" }))).toBe(false);
  }
});

it("takes any of Stripe's signatures, and none of another version or without a time", async () => {
  const v1 = mac("sha256", "s", `${seconds}.{}`).digest("hex");
  const other = "0".repeat(64);
  const outcome = (field: string) =>
    reasonOf(of("stripe", { headers: { "stripe-signature": field }, body: "{}", secret: "s" }));
  expect(await outcome(`t=${seconds},v1=${other},v1=${v1}, v0=x`)).toBe("proven");
  expect(await outcome(`t=${seconds},v0=${v1}`)).toBe("unsigned");
  expect(await outcome(`t=${seconds},v1=`)).toBe("unsigned");
  expect(await outcome(`v1=${v1}`)).toBe("unsigned");
  expect(await outcome(`t=${seconds},t=1,v1=${v1}`)).toBe("proven");
  expect(await outcome(`t=1,t=${seconds},v1=${v1}`)).toBe("wrong_signature");
});

describe("Standard Webhooks", () => {
  const rules = { scheme: "standard_webhooks" };
  const right = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
  const at = 1_614_265_330_000;
  const one = (signature = right, more: Partial<Case> = {}): Case => ({
    headers: {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": signature,
    },
    body: '{"test": 2432232314}',
    secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    nowMs: at,
    ...more,
  });

  it("knows the vector of its specification, with the secret's prefix or without", async () => {
    expect(await by(rules, one())).toEqual({ proven: true });
    expect(await by(rules, one(right, { secret: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" }))).toEqual({ proven: true });
  });

  it("takes the right one of several signatures, and passes over versions it does not know", async () => {
    const wrong = right.replace("g0", "h0");
    expect(await reasonOf(by(rules, one(`${wrong} v2,abc v1a,xyz ${right}`)))).toBe("proven");
    for (const signature of [
      wrong,
      "v1,",
      "v1",
      right.replace("v1", "v2"),
      `v2,x ${wrong}`,
      `${right}=`,
      right.slice(0, -1),
    ]) {
      expect(await reasonOf(by(rules, one(signature)))).toBe("wrong_signature");
    }
    expect(await reasonOf(by(rules, one("")))).toBe("unsigned");
  });

  it("limits the time to five minutes by default", async () => {
    expect(await reasonOf(by(rules, one(right, { nowMs: at + 300_000 })))).toBe("proven");
    expect(await reasonOf(by(rules, one(right, { nowMs: at + 301_000 })))).toBe("too_old");
    expect(await reasonOf(by(rules, one(right, { nowMs: at - 301_000 })))).toBe("from_the_future");
    const longer = { ...rules, tolerance: { seconds: 600n } };
    expect(await reasonOf(by(longer, one(right, { nowMs: at + 301_000 })))).toBe("proven");
  });

  it("refuses a secret of no bytes", async () => {
    for (const secret of ["whsec_", "whsec_!!"]) {
      expect(await reasonOf(by(rules, one(right, { secret })))).toBe("unusable_secret");
    }
  });

  it("refuses another id, time or body", async () => {
    for (const [header, value] of [
      ["webhook-id", "msg_q"],
      ["webhook-timestamp", "1614265331"],
    ] as const) {
      const { headers, ...rest } = one();
      expect(await reasonOf(by(rules, { ...rest, headers: { ...headers, [header]: value } }))).toBe("wrong_signature");
    }
    expect(await reasonOf(by(rules, one(right, { body: '{"test": 2432232315}' })))).toBe("wrong_signature");
  });
});

describe("a token", () => {
  it("W19 of GitLab's is compared, whatever its length", async () => {
    const outcome = (headers: Record<string, string>) => reasonOf(of("gitlab", { headers, secret: "s3cret\nolder" }));
    expect(await outcome({ "x-gitlab-token": "s3cret" })).toBe("proven");
    expect(await outcome({ "x-gitlab-token": "older" })).toBe("proven");
    expect(await outcome({})).toBe("unsigned");
    for (const wrong of ["", "s3cre", "s3cret1", "S3CRET", "s3cret\nolder", "é"]) {
      expect(await outcome({ "x-gitlab-token": wrong })).toBe("wrong_token");
    }
  });

  it("may stand in the query", async () => {
    const rules = { scheme: "shared_token", query: "token" };
    expect(await reasonOf(by(rules, { headers: {}, query: "token=a%20b", secret: "a b" }))).toBe("proven");
    expect(await reasonOf(by(rules, { headers: {}, query: "token=a", secret: "a b" }))).toBe("wrong_token");
    expect(await reasonOf(by(rules, { headers: {}, query: "", secret: "a b" }))).toBe("unsigned");
  });

  it("of Microsoft's must stand with each of several notifications", async () => {
    const outcome = (value: unknown) =>
      reasonOf(of("microsoft", { headers: {}, body: JSON.stringify({ value }), secret: "state" }));
    const known = { clientState: "state" };
    expect(await outcome([known, known])).toBe("proven");
    for (const value of [
      [known, {}],
      [{ clientState: "other" }, known],
      [known, null],
      [known, { clientState: 1 }],
      [known, [known]],
    ]) {
      expect({ value, outcome: await outcome(value) }).toEqual({ value, outcome: "wrong_token" });
    }
    for (const value of [[], [{}], "state", null]) expect(await outcome(value)).toBe("unsigned");
    expect(await reasonOf(of("microsoft", { headers: {}, body: "{", secret: "state" }))).toBe("unsigned");
  });

  it.each(["calendar", "google-calendar", "google-drive"])(
    "W19 of a channel of %s is compared where one is expected",
    async (name) => {
      const header = knownRules(name).signature?.header ?? "";
      const expected = hash("sha256", "t0ken");
      const outcome = (headers: Record<string, string>, more: Partial<Case> = {}) =>
        reasonOf(of(name, { headers, secret: "", ...more }));
      expect(await outcome({ [header]: "t0ken" }, { expected })).toBe("proven");
      expect(await outcome({ [header]: "t0ken" }, { secret: "t0ken" })).toBe("proven");
      // Only the channel's own token counts.
      expect(await outcome({ [header]: "t0ken" }, { secret: "t0ken", expected: hash("sha256", "x") })).toBe(
        "wrong_token",
      );
      for (const wrong of ["", "t0ke", "t0ken1", expected]) {
        expect(await outcome({ [header]: wrong }, { expected })).toBe("wrong_token");
      }
      expect(await outcome({}, { expected })).toBe("unsigned");
      expect(await outcome({})).toBe("no_secret");
      expect(await outcome({ [header]: "whatever" })).toBe("no_secret");
    },
  );
});

describe("a JWT", () => {
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const p384 = generateKeyPairSync("ec", { namedCurve: "P-384" });
  const published = ({ publicKey }: { readonly publicKey: KeyObject }, kid: string): SignerKey => ({
    ...publicKey.export({ format: "jwk" }),
    kid,
    use: "sig",
  });
  const keys = [
    published(rsa, "r"),
    published(ec, "e"),
    published(p384, "p"),
    { kty: "RSA", kid: "broken", n: "!", e: "" },
  ];
  const account = "push@project.iam.gserviceaccount.com";
  const claims = { iss: "https://accounts.google.com", aud: url, exp: nowMs / 1000 + 60, email: account };
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  function token(
    more: object = {},
    { alg = "RS256", kid = "r", key = rsa.privateKey, crit = undefined as unknown } = {},
  ) {
    const content = `${encoded({ alg, kid, crit })}.${encoded({ ...claims, ...more })}`;
    const signature = sign("sha256", Buffer.from(content), alg === "ES256" ? { key, dsaEncoding: "ieee-p1363" } : key);
    return `${content}.${signature.toString("base64url")}`;
  }
  const outcome = (jwt: string, more: Partial<Case> = {}) =>
    reasonOf(
      of("google-mail", { headers: { authorization: `Bearer ${jwt}` }, secret: account, keys, body: "{}", ...more }),
    );

  it("of Google's for us is believed, signed either way", async () => {
    expect(await outcome(token())).toBe("proven");
    expect(await outcome(token({}, { alg: "ES256", kid: "e", key: ec.privateKey }))).toBe("proven");
    expect(await outcome(token({ aud: ["other", url] }))).toBe("proven");
  });

  it("for another audience, from another sender, or of another time is not", async () => {
    expect(await outcome(token({ email: "push@evil.iam.gserviceaccount.com" }))).toBe("wrong_identity");
    expect(await outcome(token({ email: [account] }))).toBe("wrong_identity");
    expect(await outcome(token({ aud: "https://other.example" }))).toBe("wrong_audience");
    expect(await outcome(token({ aud: undefined }))).toBe("wrong_audience");
    expect(await outcome(token({ iss: "https://evil.test" }))).toBe("wrong_issuer");
    expect(await outcome(token({ exp: nowMs / 1000 - 61 }))).toBe("too_old");
    expect(await outcome(token({ exp: undefined }))).toBe("too_old");
    expect(await outcome(token({ nbf: nowMs / 1000 + 61 }))).toBe("from_the_future");
  });

  it("signed with another key, or none, is not", async () => {
    const evil = generateKeyPairSync("rsa", { modulusLength: 2048 });
    expect(await outcome(token({}, { key: evil.privateKey }))).toBe("wrong_signature");
    expect(await outcome(token({}, { kid: "x" }))).toBe("unknown_key");
    expect(await outcome(token({}, { kid: "e" }))).toBe("unknown_key");
    expect(await outcome(token({}, { kid: "broken" }))).toBe("wrong_signature");
    expect(await outcome(token({}, { alg: "ES256", kid: "p", key: p384.privateKey }))).toBe("wrong_signature");
    const [head, body, signature = ""] = token().split(".");
    expect(await outcome(`${head}.${body}.${signature.slice(4)}`)).toBe("wrong_signature");
    expect(await outcome(`${head}.${encoded({ ...claims, more: 1 })}.${signature}`)).toBe("wrong_signature");
    const [ecHead, ecBody] = token({}, { alg: "ES256", kid: "e", key: ec.privateKey }).split(".");
    for (const short of ["AA", "AAAA".repeat(40)])
      expect(await outcome(`${ecHead}.${ecBody}.${short}`)).toBe("wrong_signature");
    const none = `${encoded({ alg: "none" })}.${body}.`;
    const shared = `${encoded({ alg: "HS256", kid: "r" })}.${body}`;
    const hs = `${shared}.${createHmac("sha256", JSON.stringify(keys[0])).update(shared).digest("base64url")}`;
    for (const jwt of [none, `${none}AA`, hs, "", "a.b", "a.b.c", "..", token({}, { crit: ["b64"] })]) {
      expect(await outcome(jwt)).toBe("unsigned");
    }
    expect(await outcome(token(), { headers: { authorization: `Basic ${token()}` } })).toBe("unsigned");
    expect(await outcome(token(), { headers: {} })).toBe("unsigned");
  });

  it("is not required if no sender is configured", async () => {
    expect(await outcome(token(), { secret: "" })).toBe("no_secret");
  });

  it("is left open where its keys cannot be had", async () => {
    const failing = proofOf({
      rules: knownRules("google-mail").signature,
      reading: reading({ headers: { authorization: `Bearer ${token()}` } }),
      method: "POST",
      url,
      secret: account,
      keys: () => Promise.reject(new Error("unreachable")),
      nowMs,
    });
    await expect(failing).rejects.toThrow("unreachable");
  });
});

it("accepts messages of a provider without a scheme, and verifies none", async () => {
  const proof = await prove(undefined, { headers: {}, secret: "s" });
  expect(proof).toEqual({ proven: false, reason: "no_scheme" });
  expect(isAccepted(proof)).toBe(true);
});

it("proves HubSpot's and Shopify's with the app's own secret unless there is another", () => {
  const secrets = { webhookSecret: "", clientSecret: "app" };
  expect(webhookSecret(knownRules("hubspot").signature, secrets)).toBe("app");
  expect(webhookSecret(knownRules("shopify").signature, { ...secrets, webhookSecret: "own" })).toBe("own");
  expect(webhookSecret(knownRules("slack").signature, secrets)).toBe("");
  expect(webhookSecret(undefined, secrets)).toBe("");
});

it("knows which providers need a secret to be believed", () => {
  const wanting = [...loadCatalogue().values()].filter(wantsWebhookSecret).map(({ name }) => name);
  expect(wanting).toEqual(
    expect.arrayContaining(["github", "google-mail", "hubspot", "slack", "stripe", "twilio", "zendesk"]),
  );
  for (const name of ["google-calendar", "google-drive", "salesforce", "private-api-key", "jira"]) {
    expect(wanting).not.toContain(name);
  }
});

it("throws at no input, and verifies none of it", async () => {
  const all = [...loadCatalogue().values()].flatMap(({ notification }) => notification?.signature ?? []);
  const names = [...new Set(all.flatMap((rules) => [rules.header, rules.timestampHeader]))].filter(
    (name) => name !== "",
  );
  const starts = ["", "sha256=", "v0=", "t=1,v1=", "Bearer a.b.", "v1,", "hmac-sha256=", seconds];
  for (let seed = 0; seed < 300; seed++) {
    const text = (more: number) => Buffer.from(randomBytes(seed * 7 + more, (seed + more) % 41)).toString("latin1");
    const headers = Object.fromEntries(
      names.map((name, i) => [name, `${starts[(seed + i) % starts.length]}${text(i)}`]),
    );
    for (const rules of all) {
      const proof = await prove(rules, { headers, body: text(99), query: text(98), secret: "c2VjcmV0" });
      expect(isAccepted(proof)).toBe(false);
    }
  }
});
