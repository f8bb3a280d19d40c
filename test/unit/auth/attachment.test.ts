import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { attachedNames, attachmentOf } from "../../../src/auth/attachment.ts";
import { CredentialsSchema } from "../../../src/gen/latchkey/v1/credentials_pb.ts";
import { ProviderSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { attach, bytes, certificate, draftOf, now, providerOf, refusalOf, rsaKey, type Setting } from "./fixtures.ts";

const oauth1 = { case: "oauth1", value: { oauthToken: "tk", oauthTokenSecret: "ts" } } as const;
const client = { id: "id", secret: "cs", privateKey: rsaKey };
const aws = { accessKeyId: "AKID", secretAccessKey: "sk", sessionToken: "st", region: "eu-central-1" };
const hs256 = { algorithm: "HS256", keyField: "secret" };

/** One setting for each kind, and for each way of signing of a kind that has several. */
const settings: readonly Setting[] = [
  { auth: { case: "oauth2", value: {} }, kind: { case: "oauth2", value: { accessToken: "t" } } },
  { auth: { case: "oauth2Client", value: {} }, kind: { case: "oauth2Client", value: { token: "t" } } },
  ...["HMAC-SHA1", "HMAC-SHA256", "RSA-SHA1", "PLAINTEXT"].map(
    (signatureMethod): Setting => ({ auth: { case: "oauth1", value: { signatureMethod } }, kind: oauth1, client }),
  ),
  { auth: { case: "apiKey", value: { query: "key" } }, kind: { case: "apiKey", value: { apiKey: "k" } } },
  { auth: { case: "basic", value: {} }, kind: { case: "basic", value: { username: "u" } } },
  { auth: { case: "tba", value: {} }, kind: { case: "tba", value: { tokenId: "t", tokenSecret: "s" } }, client },
  { auth: { case: "app", value: {} }, kind: { case: "app", value: { accessToken: "t" } } },
  { auth: { case: "jwt", value: { jwt: hs256 } }, kind: { case: "jwt", value: { fields: { secret: "s" } } } },
  { auth: { case: "twoStep", value: {} }, kind: { case: "twoStep", value: { token: "t" } } },
  { auth: { case: "signature", value: {} }, kind: { case: "signature", value: { token: "t" } } },
  ...["s3", "service"].map(
    (service): Setting => ({
      auth: { case: "awsSigv4", value: { service } },
      kind: { case: "awsSigv4", value: aws },
    }),
  ),
  {
    auth: { case: "clientCertificate", value: {} },
    kind: { case: "clientCertificate", value: { certificate, privateKey: rsaKey } },
  },
  { auth: { case: "none", value: {} }, kind: { case: "none", value: {} } },
];

it("has a setting for every kind of credentials", () => {
  const kinds = ProviderSchema.oneofs.find(({ name }) => name === "auth")?.fields ?? [];
  // Requests on behalf of users carry tokens of the kind `oauth2Client`.
  const known = [...settings.map(({ auth }) => auth.case), "onBehalf"];
  expect(new Set(known)).toEqual(new Set(kinds.map(({ localName }) => localName)));
});

it.each(settings)("attaches $auth.case under the names it announces (%#)", (setting) => {
  const attachment = attach(setting);
  const names = attachedNames(providerOf(setting.auth));
  if (attachment.kind === "fixed") {
    expect(attachment.headers.map(([name]) => name)).toEqual(names.headers);
    expect(attachment.query.map(([name]) => name)).toEqual(names.query);
  } else {
    expect(attachment.headerNames).toEqual(names.headers);
    const signed = attachment.sign(draftOf("GET", "https://api.example.com/"));
    expect(names.headers).toEqual(expect.arrayContaining(signed.headers.map(([name]) => name)));
  }
});

/** Any request that a caller may send: a printable path and query, any body, many headers. */
function randomDraft(seed: number) {
  // A linear congruential generator (Numerical Recipes): the same drafts in every run.
  let state = seed;
  const next = (below: number) => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return Math.floor((state / 2 ** 32) * below);
  };
  const text = (length: number) =>
    Array.from({ length: next(length) }, () => String.fromCharCode(0x21 + next(94))).join("");
  const path = `/${text(30).replace(/[?#]/g, "")}`;
  const types = ["application/json", "application/x-www-form-urlencoded", "text/plain"];
  return draftOf(["GET", "POST", "PUT"][next(3)] ?? "", "https://api.example.com/", {
    path,
    query: text(30),
    headers: [
      ["content-type", types[next(3)] ?? ""],
      ["x-any", text(20)],
      ["x-amz-date", "19700101T000000Z"],
    ],
    body: next(2) === 0 ? undefined : bytes(text(50)),
    nonce: text(20),
  });
}

it.each(settings)("gives the same for the same draft with $auth.case (%#)", (setting) => {
  const [one, other] = [attach(setting), attach(setting)];
  if (one.kind === "fixed" || other.kind === "fixed") return expect(one).toEqual(other);
  for (let seed = 0; seed < 50; seed++) {
    const { headers } = one.sign(randomDraft(seed));
    expect(one.sign(randomDraft(seed)).headers).toEqual(headers);
    expect(other.sign(randomDraft(seed)).headers).toEqual(headers);
    for (const [name, value] of headers) {
      expect(name).toBe(name.toLowerCase());
      expect(value).toMatch(/^[\x20-\x7e]+$/);
    }
  }
});

it.each(settings)("lets only the requested body change $auth.case (%#)", (setting) => {
  const attachment = attach(setting);
  if (attachment.kind === "fixed") return;
  const draft = draftOf("POST", "https://api.example.com/", { headers: [["content-type", "application/json"]] });
  const changed = (body: string) => attachment.sign({ ...draft, body: bytes(body) }).headers;
  if (attachment.needs === "form") expect(changed("{}")).toEqual(changed("[]"));
  if (attachment.needs === "body") expect(changed("{}")).not.toEqual(changed("[]"));
});

it("refuses credentials of another kind than the provider takes", () => {
  const auth = { case: "awsSigv4", value: {} } as const;
  expect(refusalOf({ auth, kind: { case: "twoStep", value: { token: "t" } } })).toBe(
    "the provider takes aws_sigv4, and the credentials are two_step",
  );
  const empty = { credentials: create(CredentialsSchema), provider: create(ProviderSchema), nowMs: now };
  expect(() => attachmentOf(empty)).toThrow("the provider's description names no kind of credentials");
  expect(() => attachmentOf({ ...empty, provider: providerOf(auth) })).toThrow("and the credentials are of no kind");
});
