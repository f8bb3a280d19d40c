import { expect, it } from "vitest";
import { createSecretSearch } from "../../../../src/core/secrets/secret-search.ts";
import { formsOf } from "../../../support/wire/secret-forms.ts";

const secret = 'Pa+ss/wo"rd-é 0123=\\&';
const plain = "a-secret-of-sixteen";
const search = createSecretSearch([secret]);

const hex = (text: string, mark: string) =>
  [...Buffer.from(text)].map((byte) => mark + byte.toString(16).padStart(2, "0")).join("");

/** Further encodings in which a program may quote a secret. */
const quoted: Readonly<Record<string, string>> = {
  JSON: JSON.stringify(secret).slice(1, -1),
  "JSON as PHP writes it": JSON.stringify(secret).slice(1, -1).replaceAll("/", "\\/"),
  "JSON within JSON": JSON.stringify(JSON.stringify(secret)).slice(3, -3),
  "JSON with every character escaped": [...secret]
    .map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join(""),
  "JSON with capitals": [...secret]
    .map((c) => `\\u${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`)
    .join(""),
  HTML: secret.replaceAll("&", "&amp;").replaceAll('"', "&quot;"),
  "HTML in numbers": [...secret].map((c) => `&#${c.charCodeAt(0)};`).join(""),
  "HTML in hex, with zeros": [...secret]
    .map((c) => `&#x${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")};`)
    .join(""),
  "HTML by name": secret.replaceAll("&", "&amp;").replaceAll("/", "&sol;").replaceAll("+", "&plus;"),
  "percent-encoding": encodeURIComponent(secret),
  "percent-encoding in lower case": encodeURIComponent(secret).toLowerCase(),
  "percent-encoding twice": encodeURIComponent(encodeURIComponent(secret)),
  "a form": new URLSearchParams({ a: secret }).toString().slice(2),
  "quoted-printable": hex(secret, "="),
  JavaScript: hex("", "") + [...secret].map((c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`).join(""),
  "UTF-16": Buffer.from(secret, "utf16le").toString("latin1"),
  "UTF-16, the other way round": Buffer.from(secret, "utf16le").swap16().toString("latin1"),
  latin1: secret,
  capitals: secret.replaceAll(/[a-z]/g, (letter) => letter.toUpperCase()),
};

const utf8 = (text: string) => Buffer.from(text).toString("latin1");
const all: [string, string][] = [
  ...formsOf(plain)
    .filter((_, i) => i < 2 || i > 7)
    .map((form, i): [string, string] => [`form ${i}`, form]),
  ...[0, 1, 2].flatMap((by): [string, string][] => {
    const text = Buffer.from(`${"u:".slice(0, by)}${plain}..`).toString("base64");
    return [
      [`form base64 at ${by}`, text],
      [`form base64url at ${by}`, text.replaceAll("+", "-").replaceAll("/", "_")],
    ];
  }),
  ...Object.entries(quoted).map(([name, form]): [string, string] => [name, form]),
];

it.each(all)("finds a secret in %s, whole, within anything, and wherever it is cut", (name, form) => {
  const finder = name.startsWith("form ") ? createSecretSearch([plain]) : search;
  const text = name === "latin1" || name.startsWith("UTF-16") ? form : utf8(form);
  for (const [before = "", after = ""] of [
    ["", ""],
    ["x=", "&y"],
    ['{"k":"', '"}'],
    ["\\", "\\"],
    ["%", "%"],
  ]) {
    const bytes = Buffer.from(before + text + after, "latin1");
    const { ranges } = finder.find(bytes);
    expect(ranges.length, before).toBe(2);
    // All but the characters shared with neighbors, as in base64, and the NUL after the last letter.
    expect((ranges[0] ?? 99) - before.length).toBeLessThanOrEqual(8);
    expect(bytes.length - after.length - (ranges[1] ?? 0)).toBeLessThanOrEqual(8);
  }
  const bytes = Buffer.from(`x${text}`, "latin1");
  const [from = 0, to = 0] = finder.find(bytes).ranges;
  // Without its last characters, the search still reports that a secret has begun.
  for (let end = from + 1; end < to - 12; end += 1)
    expect(finder.find(bytes.subarray(0, end), { hasMore: true }).begun).toBeLessThanOrEqual(from);
});

it("finds nothing without a secret, and all of several", () => {
  for (const text of [secret.slice(0, -1), secret.slice(1), "%", "\\u00", "&#", "", "Pa+ss/wo rd-e 0123"]) {
    expect(search.find(Buffer.from(`${text} and more of it`, "latin1")), text).toMatchObject({ ranges: [] });
  }
  const two = createSecretSearch(["first-secret", "second-secret", "short"]);
  const bytes = Buffer.from("first-secret second-secret FIRST-SECRET short");
  expect(two.find(bytes).ranges).toEqual([0, 12, 13, 26, 27, 39]);
});

it("knows a secret in a field's name, whose signs a name cannot hold", () => {
  const one = createSecretSearch(["SECRET-ADA/CREDENTIAL+0123"]);
  for (const name of ["x-secret-ada.credential+0123", "SECRETADACREDENTIAL0123", "secret_ada_credential_0123-b"]) {
    expect(one.isInName(name), name).toBe(true);
  }
  expect(one.isInName("x-secret-ada")).toBe(false);
});

it("recognizes a long secret by its start, and covers the rest", () => {
  const long = createSecretSearch(["abcdefghij".repeat(10)]);
  expect(long.find(Buffer.from(`x${"abcdefghij".repeat(4)}!`)).ranges).toEqual([1, 41]);
  expect(long.find(Buffer.from(`x${"abcdefghij".repeat(3)}!`)).ranges).toEqual([]);
  const begun = long.find(Buffer.from(`x${"abcdefghij".repeat(5)}`), { hasMore: true });
  expect(begun).toEqual({ ranges: [1, 51], begun: 1 });
});

it("takes no longer for an ambiguous secret", () => {
  const ambiguous = createSecretSearch(["%25".repeat(200), "\\".repeat(300)]);
  const bytes = Buffer.from(`${"%25".repeat(20_000)}x${"\\".repeat(20_000)}`);
  const { ranges } = ambiguous.find(bytes);
  expect(ranges.length).toBeGreaterThan(0);
});
