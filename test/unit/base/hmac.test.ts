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
      }
    }
  }
});

it("includes nothing of earlier input", () => {
  const hmac = createHmacKey(Buffer.from("key"));
  hmac.of("a long text before a short one");
  expect(Buffer.from(hmac.of("a"), "binary")).toEqual(createHmac("sha256", "key").update("a").digest());
});
