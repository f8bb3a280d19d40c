import { expect, it } from "vitest";
import {
  signatureFields,
  signingSecretMistake,
  signingSecretOf,
} from "../../../../src/core/notifications/webhook-signature.ts";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const former = signingSecretOf(Buffer.alloc(24, 1));
const asked = {
  id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
  timestampMs: 1_614_265_330_000,
  body: Buffer.from('{"test": 2432232314}'),
  secrets: [secret],
};

it("W21 equals Standard Webhooks' own test vector", () => {
  expect(signatureFields(asked)).toEqual({
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    // openssl dgst -sha256 -hmac whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
    "x-nango-hmac-sha256": "80ec8a89ce3cd22133a1066caecb4d04fea7467657c8514d717ec42c38a5c94c",
  });
});

it("W21 signs with the former secret too while it does, the newest first, and for the SDK with the newest alone", () => {
  const [alone, other] = [signatureFields(asked), signatureFields({ ...asked, secrets: [former] })];
  const both = signatureFields({ ...asked, secrets: [former, secret] });
  expect(both["webhook-signature"]).toBe(`${other["webhook-signature"]} ${alone["webhook-signature"]}`);
  expect(both["x-nango-hmac-sha256"]).toBe(other["x-nango-hmac-sha256"]);
});

it("W21 contains and covers the second of the attempt", () => {
  const later = signatureFields({ ...asked, timestampMs: asked.timestampMs + 1_999 });
  expect(later["webhook-timestamp"]).toBe("1614265331");
  expect(later["webhook-id"]).toBe(asked.id);
  expect(later["webhook-signature"]).not.toBe(signatureFields(asked)["webhook-signature"]);
  expect(later["x-nango-hmac-sha256"]).toBe(signatureFields(asked)["x-nango-hmac-sha256"]);
});

it("signs bytes, and not their text", () => {
  const fields = (body: Uint8Array) => signatureFields({ ...asked, body });
  expect(fields(Buffer.of(0xff))).not.toEqual(fields(Buffer.from(Buffer.of(0xff).toString())));
});

it.each([24, 64])("takes a secret of %d bytes", (size) => {
  expect(signingSecretMistake(signingSecretOf(Buffer.alloc(size, 7)))).toBeUndefined();
});

const base64 = Buffer.alloc(32, 7).toString("base64");
it.each([
  ["no prefix", base64, "must begin with whsec_"],
  ["nothing", "", "must begin with whsec_"],
  ["nothing behind its prefix", "whsec_", "24 to 64 bytes, but has 0 bytes"],
  ["23 bytes", signingSecretOf(Buffer.alloc(23)), "24 to 64 bytes, but has 23 bytes"],
  ["65 bytes", signingSecretOf(Buffer.alloc(65)), "24 to 64 bytes, but has 65 bytes"],
  ["no base64", `whsec_${"!".repeat(44)}`, "followed by padded base64"],
  ["no padding", `whsec_${base64.replaceAll("=", "")}`, "followed by padded base64"],
  ["base64 for URLs", `whsec_${Buffer.alloc(32, 0xff).toString("base64url")}=`, "followed by padded base64"],
  ["a line break", `whsec_${base64}\n`, "followed by padded base64"],
  ["unused bits that are not zero", `whsec_${base64.slice(0, -2)}x=`, "followed by padded base64"],
])("refuses a secret with %s, and does not quote it", (_what, text, message) => {
  const mistake = signingSecretMistake(text);
  expect(mistake).toContain(message);
  if (text.length > 6) expect(mistake).not.toContain(text.slice(6));
});
