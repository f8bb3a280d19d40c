import { createHmac, randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { createHmacKey } from "../../../src/base/hmac.ts";

it("is HMAC-SHA-256 for keys and texts of any length", () => {
  for (const keyLength of [0, 1, 32, 63, 64, 65, 200]) {
    const key = randomBytes(keyLength);
    const hmac = createHmacKey(key);
    for (const length of [0, 1, 55, 56, 64, 1_000, 4_095, 4_096, 4_097, 10_000]) {
      const value = randomBytes(length);
      for (const text of ["", "a key\0of parts", "é€𝄞".repeat(20), "€".repeat(1_400)]) {
        const expected = createHmac("sha256", key).update(text).update(value).digest("binary");
        expect(hmac.of(text, value)).toBe(expected);
        const length = Buffer.alloc(4);
        length.writeUInt32BE(Buffer.byteLength(text));
        expect(hmac.ofNamed(text, value)).toBe(hmac.of(length, text, value));
      }
    }
  }
});

it("includes nothing of earlier input", () => {
  const hmac = createHmacKey(Buffer.from("key"));
  hmac.of("a long text before a short one");
  expect(Buffer.from(hmac.of("a"), "binary")).toEqual(createHmac("sha256", "key").update("a").digest());
});

it("keeps keys apart that are used in turns", () => {
  const keys = ["one", "two"].map((text) => ({ text, hmac: createHmacKey(Buffer.from(text)) }));
  for (const { text, hmac } of [...keys, ...keys]) {
    const expected = createHmac("sha256", text).update("value").digest("binary");
    expect(hmac.of("value")).toBe(expected);
  }
});
