import { describe, expect, it } from "vitest";
import { checkBranding } from "../../../src/core/branding.ts";

const uri = (type: string, bytes: string | Buffer) =>
  `data:image/${type};base64,${Buffer.from(bytes).toString("base64")}`;
const png = Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), Buffer.alloc(20)]);
const svg = (inside: string, open = "<svg xmlns='http://www.w3.org/2000/svg'>") =>
  uri("svg+xml", `${open}${inside}</svg>`);
const mistakes = (fields: Parameters<typeof checkBranding>[0]) =>
  checkBranding(fields, ["branding"]).map(({ path }) => path.join("."));

describe("checkBranding", () => {
  it.each([
    {},
    { name: "Acme & Søns", accentColor: "#1F4fbf", supportUrl: "https://acme.example/help" },
    { supportUrl: "mailto:help@acme.example" },
    { logo: uri("png", png) },
    { logo: uri("jpeg", Buffer.from([0xff, 0xd8, 0xff, 0xe0])) },
    { logo: uri("webp", "RIFF....WEBPVP8 ") },
    { logo: svg("<linearGradient id='a'/><path fill='url(#a)' d='M0 0'/><use href='#a'/>") },
    { logo: svg("<g/>", "<?xml version='1.0'?>\n<!-- drawn by hand -->\n<svg>") },
  ])("accepts %j", (fields) => expect(mistakes(fields)).toEqual([]));

  it.each([
    ["branding.name", { name: " Acme" }],
    ["branding.name", { name: "Ac\nme" }],
    ["branding.name", { name: "Acme\u202E" }],
    ["branding.name", { name: "x".repeat(65) }],
    ["branding.accent_color", { accentColor: "red" }],
    ["branding.accent_color", { accentColor: "#fff;}" }],
    ["branding.support_url", { supportUrl: "javascript:alert(1)" }],
    ["branding.support_url", { supportUrl: "http://acme.example" }],
    ["branding.logo", { logo: "https://acme.example/logo.png" }],
    ["branding.logo", { logo: "data:text/html;base64,PGI+" }],
    ["branding.logo", { logo: "data:image/svg+xml,<svg/>" }],
    ["branding.logo", { logo: uri("png", "GIF89a") }],
    ["branding.logo", { logo: uri("jpeg", png) }],
    ["branding.logo", { logo: uri("webp", "RIFF....WAVE") }],
    ["branding.logo", { logo: uri("png", Buffer.concat([png, Buffer.alloc(33_000)])) }],
    ["branding.logo", { logo: uri("svg+xml", "<html></html>") }],
    ["branding.logo", { logo: svg("<script>alert(1)</script>") }],
    ["branding.logo", { logo: svg("<svg:script/>") }],
    ["branding.logo", { logo: svg("<rect onload='x()'/>") }],
    ["branding.logo", { logo: svg("<a href='https://evil.test'/>") }],
    ["branding.logo", { logo: svg("<image href='https://evil.test/x.png'/>") }],
    ["branding.logo", { logo: svg("<use xlink:href='javascript:x'/>") }],
    ["branding.logo", { logo: svg("<style>@import 'https://evil.test'</style>") }],
    ["branding.logo", { logo: svg("<rect fill='url(https://evil.test)'/>") }],
    ["branding.logo", { logo: svg("<foreignObject/>") }],
    ["branding.logo", { logo: svg("", "<!DOCTYPE svg><svg>") }],
  ])("refuses a wrong %s: %j", (path, fields) => expect(mistakes(fields)).toEqual([path]));
});
