import { hash } from "node:crypto";
import { type Html, html } from "../../base/html.ts";
import type { RouteAnswer } from "../server/routes.ts";

const colors = "--ink:#16181d;--quiet:#5a6170;--paper:#f4f5f7;--card:#fff;--line:#c9ced8;--link:#1f4fbf";
const darkColors = "--ink:#eceef2;--quiet:#a3aab8;--paper:#14161a;--card:#1e2127;--line:#434956;--link:#8fb0ff";
const style = `:root{color-scheme:light dark;${colors}}@media (prefers-color-scheme:dark){:root{${darkColors}}}
*{box-sizing:border-box}body{margin:0;padding:1rem;font:1rem/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
main{max-width:48rem;margin:1rem auto;overflow-wrap:anywhere}h1{font-size:1.6rem}h2{margin:2.5rem 0 .5rem;font-size:1.25rem}
section{margin:.75rem 0;padding:.75rem 1rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem;scroll-margin-top:1rem}
section:target{border-color:var(--link);box-shadow:0 0 0 2px var(--link)}h3{margin:0;font-size:1.05rem}h3 a{color:inherit}p,ul{margin:.35rem 0}
.quiet{color:var(--quiet);font-size:.9rem}a{color:var(--link)}code{font-family:ui-monospace,monospace;font-size:.92em}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}`;
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${hash("sha256", style, "base64")}'`,
  "form-action 'none'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join("; ");

/** Returns a page of text for developers: one style, no script, nothing from other hosts. */
export function plainPage(title: string, content: Html): RouteAnswer {
  const body = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex"><title>${title}</title>
<style>${{ html: style }}</style></head>
<body><main><h1>${title}</h1>
${content}
</main></body></html>
`;
  return {
    status: 200,
    body: body.html,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": policy,
      "x-frame-options": "DENY",
      "referrer-policy": "no-referrer",
      "permissions-policy": "camera=(), geolocation=(), microphone=()",
    },
  };
}
