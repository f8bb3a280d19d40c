import { hash } from "node:crypto";
import { type Html, html } from "../../../base/html.ts";
import type { SandboxAnswer } from "../call.ts";
import { style } from "./style.ts";

/** Pages with one style, at most one script, and nothing from other hosts. */

const hashOf = (text: string): string => `'sha256-${hash("sha256", text, "base64")}'`;
const styleHash = hashOf(style);

interface SandboxPageOptions {
  readonly status?: number;
  /** Origins that its form, and the redirect after the form, may lead to. */
  readonly formActions?: readonly string[];
  /** Its script, which may read pages of this origin. */
  readonly script?: string;
  readonly isWide?: boolean;
}

export function page(
  title: string,
  body: Html,
  { status = 200, formActions = [], script = "", isWide = false }: SandboxPageOptions = {},
): SandboxAnswer {
  const whole = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title>
<style>${{ html: style }}</style></head><body${isWide ? html` class="wide"` : ""}><main><h1>${title}</h1>
${body}
<p class="note">This is the Latchkey sandbox, a fake provider. Its users and their data are made up.</p></main>${
    script === "" ? "" : { html: `<script>${script}</script>` }
  }</body></html>
`;
  const policy = [
    "default-src 'none'",
    `style-src ${styleHash}`,
    ...(script === "" ? [] : [`script-src ${hashOf(script)}`, "connect-src 'self'"]),
    `form-action ${["'self'", ...formActions].join(" ")}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ];
  return {
    status,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": policy.join("; "),
      // A form of a page that hides its referrer hides its origin too, which the buttons have to show.
      "referrer-policy": script === "" ? "no-referrer" : "same-origin",
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
