import { expect, it } from "vitest";
import type { NameValue, RequestDraft } from "../../../../src/auth/attachment.ts";
import { createSigner, type SignatureMethod } from "../../../../src/auth/oauth1/signature.ts";
import { draftOf, form, rsaKey } from "../fixtures.ts";

interface Vector {
  readonly name: string;
  readonly draft: RequestDraft;
  readonly method?: SignatureMethod;
  readonly consumer: readonly [id: string, secret: string];
  readonly token?: readonly [id: string, secret: string];
  readonly parameters: Readonly<Record<string, string>>;
  readonly signature: string;
}

const photos = ["dpf43f3p2l4k3l03", "kd94hf93k423kf44"] as const;
const photoToken = ["nnch734d00sl2jdk", "pfkkdhi9sl3r4s00"] as const;
const resource = draftOf("GET", "http://photos.example.net/photos?file=vacation.jpg&size=original");
const core = { oauth_timestamp: "1191242096", oauth_nonce: "kllo9940pd9333jh", oauth_version: "1.0" };

const vectors: readonly Vector[] = [
  {
    name: "temporary credentials of RFC 5849, section 1.2",
    draft: draftOf("POST", "https://photos.example.net/initiate"),
    consumer: photos,
    parameters: {
      oauth_timestamp: "137131200",
      oauth_nonce: "wIjqoS",
      oauth_callback: "http://printer.example.com/ready",
    },
    signature: "74KNZJeDHnMBp0EMJ9ZHt/XKycU=",
  },
  {
    name: "a token of RFC 5849, section 1.2",
    draft: draftOf("POST", "https://photos.example.net/token"),
    consumer: photos,
    token: ["hh5s93j4hdidpola", "hdhd0244k9j7ao03"],
    parameters: { oauth_timestamp: "137131201", oauth_nonce: "walatlh", oauth_verifier: "hfdp7dh39dks9884" },
    signature: "gKgrFCywp7rO0OXSjdot/IHF7IU=",
  },
  {
    name: "a resource of RFC 5849, section 1.2",
    draft: resource,
    consumer: photos,
    token: photoToken,
    parameters: { oauth_timestamp: "137131202", oauth_nonce: "chapoH" },
    signature: "MdpQcU8iPSUjWoN/UDMsK2sui9I=",
  },
  {
    // Differs from the signature in the RFC: see its erratum 2550.
    name: "query and form of RFC 5849, section 3.4.1",
    draft: draftOf("POST", "http://EXAMPLE.COM/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b", form("c2&a3=2+q")),
    consumer: ["9djdj82h48djs9d2", "j49sk3j29djd"],
    token: ["kkk9d7dh3k39sjv7", "dh893hdasih9"],
    parameters: { oauth_timestamp: "137131201", oauth_nonce: "7d8f3e4a" },
    signature: "r6/TJjbCOr97/+UU0NsvSne7s5g=",
  },
  {
    name: "OAuth Core 1.0, appendix A.5",
    draft: resource,
    consumer: photos,
    token: photoToken,
    parameters: core,
    signature: "tR3+Ty81lMeYAr/Fid0kMTYa/WM=",
  },
  {
    name: "the same with HMAC-SHA256",
    draft: resource,
    method: "HMAC-SHA256",
    consumer: photos,
    token: photoToken,
    parameters: core,
    signature: "WVPzl1j6ZsnkIjWr7e3OZ3jkenL57KwaLFhYsroX1hg=",
  },
  {
    name: "RSA-SHA1 of the OAuth test cases, section 9.3",
    draft: draftOf("GET", "http://photos.example.net/photos?file=vacaction.jpg&size=original"),
    method: "RSA-SHA1",
    consumer: ["dpf43f3p2l4k3l03", ""],
    parameters: { oauth_timestamp: "1196666512", oauth_nonce: "13917289812797014437", oauth_version: "1.0" },
    signature:
      "jvTp/wX1TYtByB1m+Pbyo0lnCOLIsyGCH7wke8AUs3BpnwZJtAuEJkvQL2/9n4s5wUmUl4aCI4BwpraNx4RtEXMe5qg5T1LVTGliMRpKasKsW//e+RinhejgCuzoH26dyF8iY2ZZ/5D1ilgeijhV/vBka5twt399mXwaYdCwFYE=",
  },
  {
    name: "PLAINTEXT of RFC 5849, section 2.1",
    draft: draftOf("POST", "https://server.example.com/request_temp_credentials"),
    method: "PLAINTEXT",
    consumer: ["jd83jd92dhsh93js", "ja893SD9"],
    parameters: {},
    signature: "ja893SD9&",
  },
  {
    name: "PLAINTEXT of secrets that must be encoded",
    draft: draftOf("GET", "https://api.example.com/"),
    method: "PLAINTEXT",
    consumer: ["ck-1", "c&s"],
    token: ["tk-1", "t s"],
    parameters: {},
    signature: "c%26s&t%20s",
  },
];

function sign({ draft, method = "HMAC-SHA1", consumer: [id, secret], token, parameters }: Vector): string {
  const signer = createSigner({ method, client: { id, secret, privateKey: rsaKey }, tokenSecret: token?.[1] ?? "" });
  const all: NameValue[] = [
    ["oauth_consumer_key", id],
    ["oauth_signature_method", method],
    ...(token === undefined ? [] : [["oauth_token", token[0]] as const]),
    ...Object.entries(parameters),
  ];
  return signer(draft, all);
}

it.each(vectors)("signs $name", (vector) => {
  expect(sign(vector)).toBe(vector.signature);
});

const [photo] = vectors.filter(({ name }) => name.includes("appendix A.5"));
const signatureOf = (draft: Partial<RequestDraft>) => {
  if (photo === undefined) throw new Error("there is no such vector");
  return sign({ ...photo, draft: { ...resource, ...draft } });
};
const plain = signatureOf({});

it.each([
  ["the order of parameters", { query: "size=original&file=vacation.jpg" }],
  ["how a parameter is encoded", { query: "file=v%61cation.jpg&size=original" }],
  ["empty parameters", { query: "&file=vacation.jpg&&size=original&" }],
  ["a signature that the caller put into the query", { query: "file=vacation.jpg&oauth_signature=x&size=original" }],
  ["the case of the method", { method: "get" }],
  ["the case of the host", { host: "Photos.Example.NET" }],
  ["the port that is the scheme's own", { host: "photos.example.net:80" }],
])("does not mind %s", (_, change) => {
  expect(signatureOf(change)).toBe(plain);
});

it.each([
  ["the port", { host: "photos.example.net:8080" }],
  ["the port of another scheme", { host: "photos.example.net:443" }],
  ["the scheme", { scheme: "https" as const }],
  ["the case of the path", { path: "/Photos" }],
  ["how the path is encoded", { path: "/phot%6Fs" }],
  ["the method", { method: "POST" }],
  ["a parameter that is there twice", { query: "file=vacation.jpg&size=original&size=original" }],
  ["a malformed escape", { query: "file=vacation.jpg&size=%original" }],
])("covers %s", (_, change) => {
  expect(signatureOf(change)).not.toBe(plain);
});

it("takes a missing path for the root", () => {
  expect(signatureOf({ path: "" })).toBe(signatureOf({ path: "/" }));
});

it("signs bytes that are no text", () => {
  expect(signatureOf({ query: "a=%ff%00" })).toBe(signatureOf({ query: "a=%FF%00" }));
  expect(signatureOf({ query: "a=%ff%00" })).not.toBe(signatureOf({ query: "a=%fe%00" }));
});

it.each([
  ["a form", "application/x-www-form-urlencoded", true],
  ["a form that names its charset", "Application/X-WWW-Form-Urlencoded; charset=UTF-8", true],
  ["JSON", "application/json", false],
  ["a type that only begins like it", "application/x-www-form-urlencoded-not", false],
  ["several parts", "multipart/form-data; boundary=x", false],
])("signs the parameters of %s as it should", (_, type, included) => {
  const [asForm, asQuery] = [{ ...form("a=1"), query: "" }, { query: "a=1" }];
  const signature = signatureOf({ ...asForm, headers: [["content-type", type]] });
  expect(signature === signatureOf(asQuery)).toBe(included);
  expect(signature === signatureOf({ query: "" })).toBe(!included);
});

it("does not sign a compressed body, or one that may not be a form", () => {
  const { headers = [], body } = form("a=1");
  const none = signatureOf({});
  expect(signatureOf({ headers: [...headers, ["content-encoding", "gzip"]], body })).toBe(none);
  expect(signatureOf({ headers: [...headers, ["content-type", "application/json"]], body })).toBe(none);
  expect(signatureOf({ headers: [], body })).toBe(none);
});
