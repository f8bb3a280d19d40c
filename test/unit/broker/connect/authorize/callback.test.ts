import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { isDenial, isSignedCallback, readCallback } from "../../../../../src/broker/connect/authorize/callback.ts";
import { CallbackSignatureSchema } from "../../../../../src/gen/latchkey/v1/provider_pb.ts";

it("reads the parameters of providers' redirects", () => {
  expect(readCallback("state=s&code=c&iss=i")).toMatchObject({ state: "s", code: "c", iss: "i", error: undefined });
  expect(readCallback("state=s&error=access_denied")).toMatchObject({ code: undefined, error: "access_denied" });
  expect(readCallback("oauth_token=t&oauth_verifier=v")).toMatchObject({ state: "t", verifier: "v" });
  expect(readCallback("oauth_token=t&oauth_problem=user_refused")).toMatchObject({ error: "user_refused" });
  expect(readCallback("oauth_token=t&denied=t")).toMatchObject({ error: "access_denied" });
});

it.each(["", "code=c", "state=", "state[]=a", `state=${"a".repeat(1_025)}`])("finds no answer in %.30s", (query) =>
  expect(readCallback(query)).toBeUndefined(),
);

it("knows a no from a mishap", () => {
  expect(["access_denied", "ACCESS_DENIED", "user_refused"].every(isDenial)).toBe(true);
  expect(["server_error", "", "invalid_scope"].some(isDenial)).toBe(false);
});

/** Shopify's own example: its query, its secret `hush` and the signature that it gives. */
const example =
  "code=0907a61c0c8d55e99db179b68161bc00&hmac=700e2dadb827fcc8609e9d5ce208b2e9cdaab9df07390d2cbca10d7c328fc4bf&shop=some-shop.myshopify.com&state=0.6784241404160823&timestamp=1337178173";

it("checks a query that its provider signed", () => {
  const rule = create(CallbackSignatureSchema, { parameter: "hmac" });
  const judge = (query: string, secret = "hush") => isSignedCallback(new URLSearchParams(query), { rule, secret });
  expect(judge(example)).toBe(true);
  expect(judge(example.split("&").reverse().join("&"))).toBe(true);
  expect(judge(example.replace("some-shop", "other-shop"))).toBe(false);
  expect(judge(example, "hushed")).toBe(false);
  expect(judge(example, "")).toBe(false);
  expect(judge(example.replace(/&hmac=[0-9a-f]+/, ""))).toBe(false);
  expect(judge(`${example}&more=1`)).toBe(false);
});

it.each([
  ["state=a&state=b&code=c", "repeated_state", ["b"]],
  ["state=a&code=b&code=c", "repeated_code", []],
  ["state=a&code=b&error=c", "code_with_error", []],
  ["oauth_token=a&oauth_verifier=b&denied=a", "code_with_error", []],
  ["state=a&oauth_token=b&code=c", undefined, ["b"]],
  ["state=a&code=b&error=", undefined, []],
])("reports what is wrong with %s", (query, misuse, otherStates) => {
  expect(readCallback(query)).toMatchObject({ state: "a", misuse, otherStates });
});
