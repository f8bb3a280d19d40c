import { hash } from "node:crypto";
import { type Html, html } from "../../base/html.ts";
import type { RouteAnswer } from "../server/routes.ts";
import type { PageSettings } from "./page-settings.ts";
import type { PageScript } from "./scripts.ts";

/** Properties of a page other than its content. */
export interface LayoutOptions {
  readonly settings: PageSettings;
  readonly status?: number;
  /** Further response headers. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Values for the page's scripts: `data-` attributes of the body. */
  readonly data?: Readonly<Record<string, string>>;
  readonly scripts?: readonly PageScript[];
  /** Other places where its forms, and the redirects that follow them, may lead. */
  readonly formActions?: readonly string[];
  /** The origins whose pages may frame the page; empty: none. */
  readonly framedBy?: readonly string[];
  /** The URL that the page goes to by itself, at once. */
  readonly refreshTo?: string;
  /** Where its script may connect to. */
  readonly connectsTo?: readonly string[];
}

/** Returns a plain page: one style, a few small scripts, nothing from other hosts, not cached. */
export function page(title: string, content: Html, options: LayoutOptions): RouteAnswer {
  const {
    settings,
    status = 200,
    data = {},
    scripts = [],
    formActions = [],
    framedBy = [],
    connectsTo = [],
    refreshTo,
  } = options;
  const { language, theme } = settings;
  const scheme = theme === "system" ? "light dark" : theme;
  const attributes = Object.entries(data).map(([name, value]) => html` data-${name}="${value}"`);
  const refresh = refreshTo === undefined ? "" : html`<meta http-equiv="refresh" content="0;url=${refreshTo}">`;
  const body = html`<!doctype html>
<html lang="${language}" data-theme="${theme}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="${scheme}"><meta name="robots" content="noindex">${refresh}<title>${title}</title>
<style>${{ html: style }}</style></head>
<body${attributes}><main><h1>${title}</h1>
${content}
</main>${{ html: scripts.map(({ text }) => `<script>${text}</script>`).join("") }}</body></html>
`;
  const policy = [
    "default-src 'none'",
    `style-src 'sha256-${styleHash}'`,
    ...(scripts.length === 0 ? [] : [`script-src ${scripts.map((one) => `'sha256-${one.hash}'`).join(" ")}`]),
    ...(connectsTo.length === 0 ? [] : [`connect-src ${connectsTo.join(" ")}`]),
    `form-action ${["'self'", ...formActions].join(" ")}`,
    `frame-ancestors ${framedBy.length === 0 ? "'none'" : framedBy.join(" ")}`,
    "base-uri 'none'",
  ];
  return {
    status,
    body: body.html,
    headers: {
      ...pageFields,
      ...options.headers,
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": policy.join("; "),
      // X-Frame-Options cannot name allowed origins: for pages that may be framed, only the policy applies.
      ...(framedBy.length === 0 ? { "x-frame-options": "DENY" } : {}),
    },
  };
}

/** Returns the page with a cookie. */
export const withCookie = (shown: RouteAnswer, setCookie: string): RouteAnswer => ({
  ...shown,
  headers: { ...shown.headers, "set-cookie": setCookie },
});

/** Headers of every page and redirect. */
const pageFields = {
  // The address of a page may hold a session, a state or a code.
  "referrer-policy": "no-referrer",
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
};

/** Redirects with 303: the browser follows with GET and without a body (RFC 9700, section 4.12). */
export const redirect = (location: string, headers: Readonly<Record<string, string>> = {}): RouteAnswer => ({
  status: 303,
  body: undefined,
  headers: { ...pageFields, ...headers, location },
});

/** The color of buttons and links, by theme. */
export const primaryColors = { light: "#1f4fbf", dark: "#8fb0ff" } as const;

const lightColors = `--ink:#16181d;--quiet:#5a6170;--paper:#f4f5f7;--card:#fff;--line:#c9ced8;--edge:#868d9b;--do:${primaryColors.light};--on-do:#fff;--bad:#a3131b;--good:#14683a`;
const darkColors = `--ink:#eceef2;--quiet:#a3aab8;--paper:#14161a;--card:#1e2127;--line:#434956;--edge:#787f8f;--do:${primaryColors.dark};--on-do:#0c1220;--bad:#ff9a9a;--good:#7fd6a2`;
const style = `:root{${lightColors}}:root[data-theme=dark]{${darkColors}}
@media (prefers-color-scheme:dark){:root[data-theme=system]{${darkColors}}}
*{box-sizing:border-box}[hidden]{display:none}body{margin:0;padding:1rem;font:1rem/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
main{max-width:26rem;margin:2rem auto;padding:1.5rem;background:var(--card);border:1px solid var(--line);border-radius:.75rem;overflow-wrap:anywhere}
h1{margin:0 0 .75rem;font-size:1.35rem;line-height:1.25}p{margin:.5rem 0}ul{margin:.5rem 0;padding-left:1.25rem}
.quiet{color:var(--quiet);font-size:.9rem}.bad{color:var(--bad)}.good{color:var(--good)}
.choices{list-style:none;padding:0}.choices a{display:block;margin:.5rem 0;padding:.75rem 1rem;border:1px solid var(--edge);border-radius:.5rem;color:inherit;text-decoration:none}
.choices a:hover{border-color:var(--do)}label{display:block;margin-top:1rem;font-weight:600}
input{display:block;width:100%;margin-top:.25rem;padding:.65rem .75rem;font:inherit;color:inherit;background:transparent;border:1px solid var(--edge);border-radius:.5rem}
input[aria-invalid=true]{border-color:var(--bad);box-shadow:0 0 0 1px var(--bad)}.problem{margin:.5rem 0;font-size:.9rem}.problem:empty{display:none}
a{color:var(--do)}details{margin-top:1rem}summary{cursor:pointer}button,.button{display:block;width:100%;margin-top:1.5rem;padding:.75rem 1rem;font:inherit;font-weight:600;text-align:center;text-decoration:none;color:var(--on-do);background:var(--do);border:0;border-radius:.5rem;cursor:pointer}
button.plain{margin-top:.75rem;color:inherit;background:transparent;border:1px solid var(--edge)}
:focus-visible{outline:3px solid var(--do);outline-offset:2px}code{font-family:ui-monospace,monospace;font-size:.9em}`;
const styleHash = hash("sha256", style, "base64");
