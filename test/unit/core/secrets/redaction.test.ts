import { randomBytes, randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { secretValues } from "../../../../src/broker/audit/secret-values.ts";
import { keptFields, keptText, type LogFieldValues, maxTextLength } from "../../../../src/core/logs/log-fields.ts";
import { createGrowingRedaction } from "../../../../src/core/secrets/growing-redaction.ts";
import { createRedaction } from "../../../../src/core/secrets/redaction.ts";
import { CredentialsSchema } from "../../../../src/gen/latchkey/v1/credentials_pb.ts";
import { below, seeded } from "../../../support/runner/seeded.ts";
import { formsOf } from "../../../support/wire/secret-forms.ts";

const alphabets = [
  "abcdefghijklmnopqrstuvwxyz",
  "0123456789",
  "ABCDEFabcdef0123456789",
  "abcXYZ019-._~+/=",
  "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ aZ9",
  "äöüß€😀aZ9",
];

const random = seeded(1);

function randomSecret(): string {
  const letters = [...(alphabets[below(random, alphabets.length)] ?? "")];
  return Array.from({ length: 8 + below(random, 120) }, () => letters[below(random, letters.length)]).join("");
}

describe("a redaction", () => {
  it("redacts a secret in any encoding, between any neighbors", () => {
    let looked = 0;
    for (let round = 0; round < 200; round += 1) {
      const secrets = Array.from({ length: 1 + below(random, 8) }, randomSecret);
      const redact = createRedaction(secrets);
      for (const secret of secrets) {
        const twice = encodeURIComponent(encodeURIComponent(secret));
        const within = Buffer.from(`user:${secret}:${randomUUID()}`).toString("base64");
        for (const form of [...formsOf(secret), twice, within, JSON.stringify(secret), `"error":"${secret}"`]) {
          const shown = redact(`the token ${form}, of ada, is not valid`);
          for (const bare of [...formsOf(secret), twice]) {
            // Shorter pieces of a secret are not searched for: any word could contain them.
            if (bare.length < 8) continue;
            looked += 1;
            if (shown.includes(bare)) throw new Error(`${JSON.stringify(secret)} as ${JSON.stringify(form)}: ${shown}`);
          }
          expect(shown).toContain("the token ");
          expect(shown).toContain(" is not valid");
        }
      }
    }
    expect(looked).toBeGreaterThan(50_000);
  });

  it("finds a quoted part of a long secret", () => {
    const secret = `${randomBytes(600).toString("base64url")}`;
    const part = secret.slice(300, 460);
    const shown = createRedaction([secret])(`malformed token ${part}...`);
    expect(shown).not.toContain(part.slice(60, 100));
  });

  it.each([
    ["a token nobody knows", "got ya29.a0AfH6SMBx9Zq8w7e6r5t4y3u2i1o0p, sorry", "got ya29.[redacted], sorry"],
    [
      "a JWT",
      "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
      "[redacted].[redacted].[redacted]",
    ],
    ["a key in hex", "key=00112233445566778899aabbccddeeff", "[redacted]"],
    ["plain words", "Token has been expired or revoked.", "Token has been expired or revoked."],
    ["codes", "AADSTS70008 invalid_grant temporarily_unavailable", "AADSTS70008 invalid_grant temporarily_unavailable"],
    ["hosts and paths", "https://oauth2.example.com/v2/token", "https://oauth2.example.com/v2/token"],
  ])("of unknown secrets: %s", (_what, text, shown) => {
    expect(createRedaction([])(text)).toBe(shown);
  });

  it("keeps known public values, unless they are also secrets", () => {
    const version = "43cfb1a4dc46ac92";
    const redact = createRedaction([], new Set([version]));
    expect(redact(`${version} version=${version} a/${version}.ts`)).toBe(
      `${version} version=${version} a/${version}.ts`,
    );
    expect(redact(`x${version} ${version}0 ${version.slice(1)}7 43cfb1a4dc46ac93`)).toBe(
      "[redacted] [redacted] [redacted] [redacted]",
    );
    expect(redact(`00112233445566778899=${version}`)).toBe("[redacted]");
    expect(createRedaction([version], new Set([version]))(`it is ${version}`)).toBe("it is [redacted]");
    expect(createRedaction([`begins-${version}`], new Set([version]))(`it is ${version}`)).toBe("it is [redacted]");
  });

  it("redacts a very short secret only as a whole word", () => {
    expect(createRedaction(["abc"])("abc fabcet abc.")).toBe("[redacted] fabcet [redacted].");
  });
});

describe("the fields of a line", () => {
  const none = createRedaction([]);

  it("are those of the table, each of its kind", () => {
    const wrong = { body: "x", status: "200", code: "two words", ms: Number.NaN, detail: 7, host: "a\nb" };
    expect(keptFields(wrong as unknown as LogFieldValues, none)).toEqual({ code: "[redacted]", host: "[redacted]" });
    const right: LogFieldValues = {
      status: 400,
      code: "invalid_grant",
      next_attempt_at: 0,
      detail: "gone",
      cause: undefined,
    };
    expect(keptFields(right, none)).toEqual({
      status: 400,
      code: "invalid_grant",
      next_attempt_at: "1970-01-01T00:00:00.000Z",
      detail: "gone",
    });
  });

  it("are cut after a redaction, so that no half of a secret is left", () => {
    const secret = "correct horse battery staple ".repeat(30);
    const shown = keptText(`${"word ".repeat(750)}${secret}`, createRedaction([secret]));
    expect(shown.length).toBeLessThanOrEqual(maxTextLength + 1);
    const close = keptText(`${"w ".repeat(190)}${secret}`, createRedaction([secret]));
    expect(close).not.toContain("correct horse");
  });

  it("stay on one line", () => {
    expect(keptText("a\r\nb\u2028c\u0000d", none)).toBe("a b c d");
  });
});

it("knows the secret fields of credentials, at any depth", () => {
  const credentials = create(CredentialsSchema, {
    kind: {
      case: "oauth2",
      value: {
        accessToken: "at",
        refreshToken: "rt",
        raw: { access_token: "at", scope: "email", token_type: "Bearer", nested: { list: [{ id_token: "it" }] } },
        configOverride: { clientId: "own", clientSecret: "cs" },
      },
    },
  });
  expect(secretValues(CredentialsSchema, credentials).sort()).toEqual(["at", "at", "cs", "it", "rt"]);
});

it("prepares a growing redaction once for the same secrets, and again for another", () => {
  let secrets = ["first secret"];
  let prepared = 0;
  const redact = createGrowingRedaction(
    () => [...secrets],
    (now) => {
      prepared += 1;
      return createRedaction(now);
    },
  );
  const text = "a first secret, another word";
  for (let i = 0; i < 3; i += 1) expect(redact(text)).toBe("a [redacted], another word");
  expect(prepared).toBe(1);
  secrets = ["another word"];
  expect(redact(text)).toBe("a first secret, [redacted]");
  expect(prepared).toBe(2);
});
