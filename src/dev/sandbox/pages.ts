import { hash } from "node:crypto";
import { type Html, html } from "../../base/html.ts";
import type { SandboxAnswer } from "./call.ts";

/** Pages without scripts, with one style, and nothing from other hosts. */

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}fieldset{border:1px solid #bbb;border-radius:6px;margin:1rem 0;padding:.8rem 1rem}
label{display:block;padding:.15rem 0}button,input[type=text]{font:inherit;padding:.4rem 1.1rem;border-radius:6px;border:1px solid #888;margin-right:.5rem}
button[value=allow]{background:#1c4fa0;color:#fff;border-color:#1c4fa0}table{border-collapse:collapse}td,th{text-align:left;padding:.15rem 1.2rem .15rem 0;vertical-align:top}
code,pre{font:14px/1.5 ui-monospace,monospace;overflow-wrap:anywhere;white-space:pre-wrap}.note{color:#555}
@media(prefers-color-scheme:dark){:root{color-scheme:dark}body{color:#e6e6e6;background:#161616}a{color:#8db8ff}
fieldset{border-color:#555}.note{color:#aaa}button[value=allow]{background:#2f6bd0;border-color:#2f6bd0}}`;
const styleHash = hash("sha256", style, "base64");

interface SandboxPageOptions {
  readonly status?: number;
  /** Origins that its form, and the redirect after the form, may lead to. */
  readonly formActions?: readonly string[];
}

export function page(
  title: string,
  body: Html,
  { status = 200, formActions = [] }: SandboxPageOptions = {},
): SandboxAnswer {
  const whole = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title>
<style>${{ html: style }}</style></head><body><h1>${title}</h1>
${body}
<p class="note">This is the latchkey sandbox: a stand-in for a provider. Its users and their data are made up.</p></body></html>
`;
  const policy = [
    "default-src 'none'",
    `style-src 'sha256-${styleHash}'`,
    `form-action ${["'self'", ...formActions].join(" ")}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ];
  return {
    status,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": policy.join("; "),
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      "cache-control": "no-store",
    },
    body: whole.html,
  };
}

export const errorPage = (status: number, message: string): SandboxAnswer =>
  page("Something went wrong", html`<p>${message}</p>`, { status });

/** Answers 303, so that the browser sends GET without the form (RFC 9700, section 4.12). */
export const redirect = (location: string): SandboxAnswer => ({
  status: 303,
  headers: { location, "cache-control": "no-store", "referrer-policy": "no-referrer" },
});
