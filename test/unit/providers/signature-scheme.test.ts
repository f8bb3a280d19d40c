import { readFileSync } from "node:fs";
import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { proofOf, wantsWebhookSecret } from "../../../src/core/notifications/proof.ts";
import { readingOf } from "../../../src/core/notifications/reading.ts";
import {
  NotificationRulesSchema,
  ProviderSchema,
  SignatureRulesSchema,
} from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { checkNotification } from "../../../src/providers/check-notification.ts";
import { signatureSchemes } from "../../../src/providers/signature-scheme.ts";

it("knows the schemes that the schema allows", () => {
  const proto = readFileSync(new URL("../../../proto/latchkey/v1/provider.proto", import.meta.url), "utf8");
  const [, listed = ""] =
    /message SignatureRules \{[\s\S]*?string scheme = 1[\s\S]*?in: \[([^\]]*)\]/.exec(proto) ?? [];
  const names = [...listed.matchAll(/"([^"]*)"/g)].map(([, name]) => name);
  expect(names).toEqual(["", ...signatureSchemes]);
});

it.each(["hmac2", "toString", "HMAC", "none"])(
  "refuses the unknown scheme %s, and takes it for no other",
  async (scheme) => {
    const rules = create(SignatureRulesSchema, { scheme, header: "x-signature", hash: "sha256", encoding: "hex" });
    const asked = { rules, method: "POST", url: "https://x.test/", keys: () => Promise.resolve([]), nowMs: 0 };
    const received = { headers: [["x-signature", "a"]] as [string, string][], query: "", body: Buffer.from("{}") };
    for (const secret of ["", "the-secret"]) {
      const proof = await proofOf({ ...asked, secret, reading: readingOf(received) });
      expect(proof).toEqual({ proven: false, reason: "unknown_scheme" });
    }
    const notification = create(NotificationRulesSchema, { signature: rules });
    expect(wantsWebhookSecret(create(ProviderSchema, { notification }))).toBe(false);
    expect(checkNotification(notification).map(({ path }) => path.join("."))).toEqual([
      "notification.signature.scheme",
    ]);
  },
);
