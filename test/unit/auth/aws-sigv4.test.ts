import { createHash, createHmac } from "node:crypto";
import { expect, it } from "vitest";
import type { RequestDraft } from "../../../src/auth/attachment.ts";
import { attachSigning, bytes, draftOf, form, type Kind, refusalOf, type Setting } from "./fixtures.ts";

const keys = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" };
const s3Keys = { accessKeyId: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" };
const scope = { region: "us-east-1", service: "service" };

const kindOf = (value: Extract<Kind, { case: "awsSigv4" }>["value"]): Kind => ({ case: "awsSigv4", value });
const settingOf = (value: Extract<Kind, { case: "awsSigv4" }>["value"], service = ""): Setting => ({
  auth: { case: "awsSigv4", value: { service } },
  kind: kindOf({ ...keys, ...scope, ...value }),
});
const ordinary = attachSigning(settingOf({}));
const s3 = attachSigning(settingOf({ ...s3Keys, service: "s3" }));

type Headers = Readonly<Record<string, string>>;
const headersOf = (attachment: typeof s3, draft: RequestDraft): Headers =>
  Object.fromEntries(attachment.sign(draft).headers);
const authorizationOf = (attachment: typeof s3, draft: RequestDraft) =>
  headersOf(attachment, draft)["authorization"] ?? "";
const signatureIn = (authorization: string) => /Signature=([0-9a-f]{64})$/.exec(authorization)?.[1];
const signedIn = (authorization: string) => /SignedHeaders=([^,]*)/.exec(authorization)?.[1];

const suiteDraft = (method: string, target: string, rest: Partial<RequestDraft> = {}) =>
  draftOf(method, `https://example.amazonaws.com${target}`, { nowMs: Date.UTC(2015, 7, 30, 12, 36), ...rest });
const unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

// AWS's own test suite for signers, from aws-c-auth. Its paths and queries are not encoded.
it.each<[string, RequestDraft, string]>([
  ["get-vanilla", suiteDraft("GET", "/"), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"],
  ["get-vanilla-query", suiteDraft("GET", "/?"), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"],
  [
    "get-vanilla-empty-query-key",
    suiteDraft("GET", "/?Param1=value1"),
    "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
  ],
  [
    "get-vanilla-query-order-key-case",
    suiteDraft("GET", "/?Param2=value2&Param1=value1"),
    "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
  ],
  [
    "get-vanilla-query-order-encoded",
    suiteDraft("GET", "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1"),
    "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
  ],
  [
    "get-vanilla-query-unreserved",
    suiteDraft("GET", `/?${unreserved}=${unreserved}`),
    "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
  ],
  [
    "get-vanilla-utf8-query",
    suiteDraft("GET", "/?ሴ=bar"),
    "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
  ],
  [
    "get-unreserved",
    suiteDraft("GET", `/${unreserved}`),
    "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
  ],
  ["get-utf8", suiteDraft("GET", "/ሴ"), "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"],
  [
    "get-space",
    suiteDraft("GET", "/example space/"),
    "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
  ],
  ["get-slashes", suiteDraft("GET", "//example//"), "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"],
  [
    "get-slash-pointless-dot",
    suiteDraft("GET", "/./example"),
    "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5",
  ],
  ["get-slash-dot-slash", suiteDraft("GET", "/./"), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"],
  [
    "get-relative",
    suiteDraft("GET", "/example/.."),
    "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
  ],
  [
    "get-header-key-duplicate",
    suiteDraft("GET", "/", {
      headers: [
        ["my-header1", "value2"],
        ["my-header1", "value2"],
        ["my-header1", "value1"],
      ],
    }),
    "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
  ],
  [
    "get-header-value-order",
    suiteDraft("GET", "/", {
      headers: ["value4", "value1", "value3", "value2"].map((value) => ["my-header1", value]),
    }),
    "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
  ],
  [
    "get-header-value-trim",
    suiteDraft("GET", "/", {
      headers: [
        ["my-header1", " value1"],
        ["my-header2", ' "a   b   c"'],
      ],
    }),
    "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
  ],
  ["post-vanilla", suiteDraft("POST", "/"), "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"],
  [
    "post-vanilla-query",
    suiteDraft("POST", "/?Param1=value1"),
    "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
  ],
  [
    "post-header-key-sort",
    suiteDraft("POST", "/", { headers: [["my-header1", "value1"]] }),
    "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
  ],
  [
    "post-x-www-form-urlencoded",
    suiteDraft("POST", "/", form("Param1=value1")),
    "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
  ],
  [
    "post-x-www-form-urlencoded-parameters",
    suiteDraft("POST", "/", {
      headers: [["content-type", "application/x-www-form-urlencoded; charset=utf8"]],
      body: bytes("Param1=value1"),
    }),
    "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe",
  ],
])("signs %s", (_, draft, signature) => {
  expect(signatureIn(authorizationOf(ordinary, draft))).toBe(signature);
});

it("writes the header of the suite's get-vanilla", () => {
  expect(headersOf(ordinary, suiteDraft("GET", "/"))).toEqual({
    authorization:
      "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, " +
      "SignedHeaders=host;x-amz-date, " +
      "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    "x-amz-date": "20150830T123600Z",
  });
});

it("signs the session token of temporary keys, as in get-vanilla-with-session-token", () => {
  const sessionToken = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
  const headers = headersOf(attachSigning(settingOf({ sessionToken })), suiteDraft("GET", "/"));
  expect(headers["x-amz-security-token"]).toBe(sessionToken);
  expect(signatureIn(headers["authorization"] ?? "")).toBe(
    "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
  );
});

const s3Draft = (method: string, target: string, rest: Partial<RequestDraft> = {}) =>
  draftOf(method, `https://examplebucket.s3.amazonaws.com${target}`, { nowMs: Date.UTC(2013, 4, 24), ...rest });

// "Signature Calculations for the Authorization Header: Transferring Payload in a Single Chunk", Amazon S3 API Reference.
it.each<[string, RequestDraft, string]>([
  [
    "GET Object",
    s3Draft("GET", "/test.txt", { headers: [["range", "bytes=0-9"]] }),
    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
  ],
  [
    "PUT Object",
    s3Draft("PUT", "/test$file.text", {
      headers: [
        ["date", "Fri, 24 May 2013 00:00:00 GMT"],
        ["x-amz-storage-class", "REDUCED_REDUNDANCY"],
      ],
      body: bytes("Welcome to Amazon S3."),
    }),
    "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
  ],
  [
    "GET Bucket Lifecycle",
    s3Draft("GET", "/?lifecycle"),
    "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
  ],
  [
    "GET Bucket (List Objects)",
    s3Draft("GET", "/?max-keys=2&prefix=J"),
    "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
  ],
])("signs the example %s of S3's documentation", (_, draft, signature) => {
  expect(signatureIn(authorizationOf(s3, draft))).toBe(signature);
});

const hash = (text: string | Buffer) => createHash("sha256").update(text).digest("hex");
const hmac = (key: string | Buffer, text: string) => createHmac("sha256", key).update(text).digest();
/** Written from AWS's description, for cases without a published example. */
function signatureOfCanonical(canonical: string | Buffer, service: string): string {
  const key = hmac(hmac(hmac(hmac(`AWS4${keys.secretAccessKey}`, "20150830"), "us-east-1"), service), "aws4_request");
  const day = `20150830/us-east-1/${service}/aws4_request`;
  return hmac(key, `AWS4-HMAC-SHA256\n20150830T123600Z\n${day}\n${hash(canonical)}`).toString("hex");
}

it.each([
  ["an encoded blank a second time", "/a%20b/c%2Fd", "/a%2520b/c%252Fd", ""],
  ["a plus in a path", "/a+b", "/a%2Bb", ""],
  ["a plus in a query as a blank", "/?a=b+c&a=b%2Bc", "/", "a=b%20c&a=b%2Bc"],
  ["a value with an equals sign", "/?a=b=c", "/", "a=b%3Dc"],
  ["a parameter without a value", "/?b&a=", "/", "a=&b="],
])("encodes %s", (_, target, path, query) => {
  const lines = ["GET", path, query, "host:example.amazonaws.com", "x-amz-date:20150830T123600Z"];
  const canonical = [...lines, "", "host;x-amz-date", hash("")].join("\n");
  const draft = suiteDraft("GET", target);
  expect(signatureIn(authorizationOf(ordinary, draft))).toBe(signatureOfCanonical(canonical, "service"));
});

it.each([
  ["once", "/a%20b//c$d", "/a%20b//c%24d"],
  ["with the slashes that are in an object's name", "/a%2Fb", "/a/b"],
  ["with a plus for a blank, as S3 reads it", "/a+b%2Bc", "/a%20b%2Bc"],
  ["with dots left where they are", "/a/./b/", "/a/./b/"],
])("encodes a path for S3 %s", (_, target, path) => {
  const lines = ["GET", path, "", "host:example.amazonaws.com"];
  const amz = [`x-amz-content-sha256:${hash("")}`, "x-amz-date:20150830T123600Z"];
  const canonical = [...lines, ...amz, "", "host;x-amz-content-sha256;x-amz-date", hash("")].join("\n");
  const attachment = attachSigning(settingOf({ service: "s3" }));
  const draft = suiteDraft("GET", target);
  expect(signatureIn(authorizationOf(attachment, draft))).toBe(signatureOfCanonical(canonical, "s3"));
});

it("hashes the bytes of a header, and not its text", () => {
  const lines = ["GET", "/", "", "host:example.amazonaws.com", "x-amz-date:20150830T123600Z", "x-any:é"];
  const canonical = Buffer.from([...lines, "", "host;x-amz-date;x-any", hash("")].join("\n"), "latin1");
  const draft = suiteDraft("GET", "/", { headers: [["x-any", "é"]] });
  expect(signatureIn(authorizationOf(ordinary, draft))).toBe(signatureOfCanonical(canonical, "service"));
});

it.each<[string, Partial<RequestDraft>, string]>([
  ["nobody read", { method: "PUT" }, "UNSIGNED-PAYLOAD"],
  ["an upload announces", { method: "GET", headers: [["content-length", "5"]] }, "UNSIGNED-PAYLOAD"],
  ["comes in chunks", { method: "GET", headers: [["transfer-encoding", "chunked"]] }, "UNSIGNED-PAYLOAD"],
  ["cannot be", { method: "GET" }, hash("")],
  ["is empty", { method: "DELETE", headers: [["content-length", "0"]] }, hash("")],
  ["is there", { method: "PUT", body: bytes("x") }, hash("x")],
])("says of a body to S3 that %s what it is", (_, change, payload) => {
  const draft = { ...s3Draft("GET", "/a"), ...change };
  expect(headersOf(s3, draft)["x-amz-content-sha256"]).toBe(payload);
});

it("reads a body everywhere but on its way to S3", () => {
  expect(ordinary.needs).toBe("body");
  expect(s3.needs).toBe("nothing");
});

it("signs neither fields that proxies may change nor the caller's own signature fields", () => {
  const callers = ["authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"];
  const onTheWay = [
    "host",
    "via",
    "user-agent",
    "accept-encoding",
    "connection",
    "transfer-encoding",
    "content-length",
  ];
  const headers = [...callers, ...onTheWay].map((name) => [name, "x"] as const);
  const draft = suiteDraft("GET", "/", { headers: [...headers, ["x-amz-target", "a"], ["content-type", "b"]] });
  const authorization = authorizationOf(ordinary, draft);
  expect(signedIn(authorization)).toBe("content-type;host;x-amz-date;x-amz-target");
  const without = suiteDraft("GET", "/", {
    headers: [
      ["x-amz-target", "a"],
      ["content-type", "b"],
    ],
  });
  expect(authorizationOf(ordinary, without)).toBe(authorization);
});

it("derives a new key for each day", () => {
  const attachment = attachSigning(settingOf({}));
  const on = (day: number) => authorizationOf(attachment, suiteDraft("GET", "/", { nowMs: Date.UTC(2015, 7, day) }));
  const [first, second, again] = [on(30), on(31), on(30)];
  expect(again).toBe(first);
  expect(second).toContain("/20150831/");
  expect(second).toBe(
    authorizationOf(attachSigning(settingOf({})), suiteDraft("GET", "/", { nowMs: Date.UTC(2015, 7, 31) })),
  );
});

it("signs for the provider's service, whatever the connection contains", () => {
  const attachment = attachSigning(settingOf({ service: "s3" }, "execute-api"));
  expect(authorizationOf(attachment, suiteDraft("GET", "/"))).toContain("/us-east-1/execute-api/aws4_request");
});

it.each([
  ["the access key ID is missing", { accessKeyId: "" }],
  ["the secret access key is missing", { secretAccessKey: "" }],
  ["the AWS region is missing or malformed", { region: "" }],
  ["the AWS region is missing or malformed", { region: "us/east" }],
  ["the AWS service is missing or malformed", { service: "" }],
  ["the AWS service is missing or malformed", { service: "s3, x" }],
  ["the session token of the role to assume is missing", { roleArn: "arn:aws:iam::1:role/a" }],
  [
    "the session token must not contain line breaks or other characters that are not allowed in a header",
    { sessionToken: "s3cr3t-canary\n" },
  ],
  [
    "the access key ID must not contain line breaks or other characters that are not allowed in a header",
    { accessKeyId: "AKID\r\nx: y" },
  ],
])("reports that %s (%#)", (message, value) => {
  expect(refusalOf(settingOf(value))).toBe(message);
});

it("uses a role that has its keys", () => {
  const value = { roleArn: "arn:aws:iam::1:role/a", sessionToken: "t" };
  expect(headersOf(attachSigning(settingOf(value)), suiteDraft("GET", "/"))["x-amz-security-token"]).toBe("t");
});
