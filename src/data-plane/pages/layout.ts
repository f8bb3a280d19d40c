import { type Html, html } from "../../base/html.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { cross } from "./marks.ts";
import type { PageSettings } from "./page-settings.ts";
import { closing, type PageScript } from "./scripts.ts";
import { accentStyle, frameStyles, type PageStyle, pageStyle } from "./styles.ts";

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
  /** The marks above the title. */
  readonly marks?: Html;
  /** The origin of the page that frames this one: a dialog there, that its user can close. Empty: no page does. */
  readonly embedder?: string;
  /** The origins whose pages may frame the page without an `embedder`. */
  readonly framedBy?: readonly string[];
  /** The URL that the page goes to by itself, at once. */
  readonly refreshTo?: string;
  /** Where its script may connect to. */
  readonly connectsTo?: readonly string[];
}

/** Returns a plain page: one style, a few small scripts, nothing from other hosts, not cached. */
export function page(title: string, content: Html, options: LayoutOptions): RouteAnswer {
  const { settings, status = 200, data = {}, embedder = "", refreshTo, marks = html`` } = options;
  const { language, theme, brand, texts } = settings;
  const isFramed = embedder !== "";
  const scripts = [...new Set([...(isFramed ? [closing] : []), ...(options.scripts ?? [])])];
  const styles = [
    pageStyle,
    ...(brand.accent === "" ? [] : [accentStyle(brand.accent)]),
    ...(isFramed ? [frameStyles[theme]] : []),
  ];
  const attributes = Object.entries(isFramed ? { to: embedder, ...data } : data).map(
    ([name, value]) => html` data-${name}="${value}"`,
  );
  const refresh = refreshTo === undefined ? "" : html`<meta http-equiv="refresh" content="0;url=${refreshTo}">`;
  // A frame is transparent only while its root has the color scheme of the page around it.
  const scheme = html`<meta name="color-scheme" content="${theme === "system" ? "light dark" : theme}">`;
  const x = html`<button type="button" class="x" aria-label="${texts.form.close}" data-close>${cross}</button>`;
  const inner = html`${marks}<h1 id="title">${title}</h1>
${content}
`;
  const body = html`<!doctype html>
<html lang="${language}" data-theme="${theme}"${isFramed ? html` data-framed` : ""}><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
${isFramed ? "" : scheme}<meta name="robots" content="noindex">${refresh}<title>${title}</title>
${styles.map(({ text }) => ({ html: `<style>${text}</style>` }))}</head>
<body${attributes}><main>${isFramed ? dialog(html`${x}${inner}`) : inner}</main>${{ html: scripts.map(({ text }) => `<script>${text}</script>`).join("") }}</body></html>
`;
  return {
    status,
    body: body.html,
    headers: {
      ...pageFields,
      ...options.headers,
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": policyOf(options, { styles, scripts, framedBy: framedByOf(options) }),
      // X-Frame-Options cannot name allowed origins: for pages that may be framed, only the policy applies.
      ...(framedByOf(options).length === 0 ? { "x-frame-options": "DENY" } : {}),
    },
  };
}

const dialog = (content: Html): Html =>
  html`<section role="dialog" aria-modal="true" aria-labelledby="title" tabindex="-1">${content}</section>`;

const framedByOf = ({ embedder = "", framedBy = [] }: LayoutOptions): readonly string[] =>
  embedder === "" ? framedBy : [embedder];

interface PolicyParts {
  readonly styles: readonly PageStyle[];
  readonly scripts: readonly PageScript[];
  readonly framedBy: readonly string[];
}

function policyOf(
  { settings: { brand }, formActions = [], connectsTo = [] }: LayoutOptions,
  { styles, scripts, framedBy }: PolicyParts,
): string {
  const hashes = (parts: readonly { readonly hash: string }[]) => parts.map((one) => `'sha256-${one.hash}'`).join(" ");
  return [
    "default-src 'none'",
    `style-src ${hashes(styles)}`,
    ...(scripts.length === 0 ? [] : [`script-src ${hashes(scripts)}`]),
    ...(brand.logo === "" ? [] : ["img-src data:"]),
    ...(connectsTo.length === 0 ? [] : [`connect-src ${connectsTo.join(" ")}`]),
    `form-action ${["'self'", ...formActions].join(" ")}`,
    `frame-ancestors ${framedBy.length === 0 ? "'none'" : framedBy.join(" ")}`,
    "base-uri 'none'",
  ].join("; ");
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
