import { hash } from "node:crypto";
import { shadesOf } from "./accent.ts";

/** A style element's text, and the hash by which the page's policy allows it. */
export interface PageStyle {
  readonly text: string;
  readonly hash: string;
}

const styleOf = (text: string): PageStyle => ({ text, hash: hash("sha256", text, "base64") });

/** The accent colors without branding. */
export const usualAccents = { light: "#1f4fbf", dark: "#8fb0ff" } as const;

const papers = {
  light: { card: "#ffffff", paper: "#f4f5f7" },
  dark: { card: "#1e2127", paper: "#14161a" },
} as const;

function accentColors(theme: "light" | "dark", accent: string): string {
  const { card, paper } = papers[theme];
  const { fill, onFill, edge, link } = shadesOf(accent, { isDark: theme === "dark", backgrounds: [card, paper] });
  return `--do:${fill};--on-do:${onFill};--do-edge:${edge};--link:${link}`;
}

/** Declares the variables of both themes. */
const themed = (light: string, dark: string): string =>
  `:root{${light}}:root[data-theme=dark]{${dark}}@media (prefers-color-scheme:dark){:root[data-theme=system]{${dark}}}`;

const light = `--ink:#16181d;--quiet:#5a6170;--paper:${papers.light.paper};--card:${papers.light.card};--line:#dfe3ea;--edge:#868d9b;--hover:#f7f8fa;--bad:#a3131b;--bad-paper:#fdf0f0;--good:#14683a;--good-paper:#e9f6ee;--shadow:0 1px 2px rgb(16 24 40/.06),0 12px 32px -12px rgb(16 24 40/.18);${accentColors("light", usualAccents.light)}`;
const dark = `--ink:#eceef2;--quiet:#a3aab8;--paper:${papers.dark.paper};--card:${papers.dark.card};--line:#343a45;--edge:#787f8f;--hover:#252932;--bad:#ff9a9a;--bad-paper:#3a2226;--good:#7fd6a2;--good-paper:#1c3327;--shadow:0 1px 2px rgb(0 0 0/.4),0 16px 40px -16px rgb(0 0 0/.6);${accentColors("dark", usualAccents.dark)}`;

/** The style of every page. */
export const pageStyle = styleOf(`${themed(light, dark)}
*{box-sizing:border-box}[hidden]{display:none!important}
body{display:flex;flex-direction:column;min-height:100vh;min-height:100dvh;margin:0;padding:1.5rem 1rem;font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:var(--paper);-webkit-font-smoothing:antialiased;text-rendering:optimizeLegibility}
main{position:relative;width:100%;max-width:26.5rem;margin:auto;padding:2rem;background:var(--card);border:1px solid var(--line);border-radius:1rem;box-shadow:var(--shadow);overflow-wrap:anywhere}
[role=dialog]:focus{outline:none}
h1{margin:0 0 .75rem;font-size:1.375rem;font-weight:650;line-height:1.3;letter-spacing:-.011em;text-align:center;text-wrap:balance}
h1:focus{outline:none}h2{margin:1.5rem 0 .5rem;font-size:1rem;font-weight:600}p{margin:.5rem 0}ul{margin:.5rem 0;padding-left:1.25rem}.lead{text-align:center;text-wrap:pretty}
.quiet{color:var(--quiet);font-size:.9rem}.bad{color:var(--bad)}.good{color:var(--good)}
.marks{display:flex;justify-content:center;align-items:center;gap:.75rem;margin:0 0 1.25rem}.marks:has(.status){margin-bottom:1rem}
.mark{display:block;flex:none;width:3rem;height:3rem;border-radius:.75rem}.mark.logo{object-fit:contain;padding:.25rem;background:#fff;border:1px solid var(--line)}
.link-dots{flex:none;color:var(--edge)}.status{width:3.25rem;height:3.25rem}
.notice{margin:1rem 0;padding:.65rem .85rem;border-radius:.6rem;font-size:.9375rem;background:var(--bad-paper);color:var(--bad)}.notice:empty{display:none}
.notice p:first-child{margin-top:0}.notice p:last-child{margin-bottom:0}.notice.good{background:var(--good-paper);color:var(--good)}.notice.quiet{background:var(--hover);color:var(--ink)}
.choices{list-style:none;margin:1rem 0 0;padding:0}.choices a{display:flex;align-items:center;gap:.85rem;margin:.5rem 0;padding:.6rem .85rem .6rem .6rem;border:1px solid var(--edge);border-radius:.75rem;color:inherit;font-weight:550;text-decoration:none;transition:background .12s,border-color .12s}
.choices a:hover{background:var(--hover);border-color:var(--link)}.choices .mark{width:2.25rem;height:2.25rem;border-radius:.6rem}.choices .name{flex:1}.choices .go{flex:none;color:var(--quiet)}
.search{margin:1rem 0 0}label{display:block;margin-top:1.1rem;font-weight:600;font-size:.9375rem}
input{display:block;width:100%;margin-top:.35rem;padding:.65rem .8rem;font:inherit;color:inherit;background:var(--card);border:1px solid var(--edge);border-radius:.6rem}
select{display:block;width:100%;margin-top:.35rem;padding:.65rem .8rem;font:inherit;color:inherit;background:var(--card);border:1px solid var(--edge);border-radius:.6rem}fieldset{margin:1rem 0 0;padding:0;border:0}legend{font-weight:600;font-size:.9375rem}
label.option{display:flex;align-items:center;gap:.75rem;margin:.5rem 0;padding:.7rem .85rem;font-weight:500;border:1px solid var(--edge);border-radius:.6rem;cursor:pointer}label.option:hover{background:var(--hover)}input[type=radio]{flex:none;width:auto;margin:0}
input:hover{border-color:var(--ink)}input::placeholder{color:var(--quiet);opacity:1}.secret{position:relative;display:block}.secret:has(button:not([hidden])) input{padding-right:5.5rem}
.secret button{position:absolute;inset:0 0 0 auto;width:auto;margin:0;padding:0 .9rem;font-size:.875rem;color:var(--link);background:none;border:0}
input[aria-invalid=true]{border-color:var(--bad);box-shadow:0 0 0 1px var(--bad)}.problem{margin:.4rem 0;font-size:.9rem}.problem:empty{display:none}
a{color:var(--link);text-underline-offset:.15em}details{margin-top:1.25rem;font-size:.9rem}summary{cursor:pointer;color:var(--quiet)}
button,.button{display:flex;justify-content:center;align-items:center;gap:.6rem;width:100%;min-height:2.9rem;margin-top:1.5rem;padding:.6rem 1rem;font:inherit;font-weight:600;text-align:center;text-decoration:none;color:var(--on-do);background:var(--do);border:1px solid var(--do-edge);border-radius:.65rem;cursor:pointer;transition:filter .12s}
button:hover,.button:hover{filter:brightness(.94)}button.plain,.button.plain{margin-top:.75rem;color:inherit;background:transparent;border:1px solid var(--edge)}button.plain:hover,.button.plain:hover{filter:none;background:var(--hover)}
.button+.button{margin-top:.75rem}button.x{position:absolute;top:.75rem;right:.75rem;width:2.5rem;min-height:2.5rem;margin:0;padding:0;color:var(--quiet);background:none;border:0}button.x:hover{filter:none;color:var(--ink);background:var(--hover)}
button[aria-busy=true]{cursor:progress}button[aria-busy=true]::before{content:"";width:1.05em;height:1.05em;border:2px solid;border-right-color:transparent;border-radius:50%;animation:turn .7s linear infinite}@keyframes turn{to{transform:rotate(1turn)}}
.foot{margin:1.25rem 0 0;text-align:center}.code{margin:1.25rem 0 0;text-align:center;font-size:.8rem;color:var(--quiet)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}code{font-family:ui-monospace,SFMono-Regular,Menlo,monospace;font-size:.9em}
[data-framed]{background:transparent}[data-framed] body{background:rgb(10 12 16/.55)}[data-framed] main{animation:rise .18s ease-out}@keyframes rise{from{opacity:0;transform:translateY(.5rem)}}
@media (max-width:30rem){body{padding:0;background:var(--card)}main{max-width:none;flex:1;margin:0;padding:2rem 1.25rem;border:0;border-radius:0;box-shadow:none}[data-framed] main{flex:none;margin-top:auto;border-radius:1rem 1rem 0 0}}
@media (prefers-reduced-motion:reduce){*,::before{animation:none!important;transition:none!important}}
@media (forced-colors:active){input,button,.button,.choices a{border:1px solid}}`);

const brandStyles = new Map<string, PageStyle>();
const maxBrandStyles = 200;

/** Returns the style for an environment's accent color. */
export function accentStyle(accent: string): PageStyle {
  const known = brandStyles.get(accent);
  if (known !== undefined) return known;
  const made = styleOf(themed(accentColors("light", accent), accentColors("dark", accent)));
  if (brandStyles.size >= maxBrandStyles) brandStyles.clear();
  brandStyles.set(accent, made);
  return made;
}

/** Style of a page that is shown in a frame: the theme colors its controls, not the frame, which stays transparent. */
export const frameStyles = {
  light: styleOf("main{color-scheme:light}"),
  dark: styleOf("main{color-scheme:dark}"),
  system: styleOf("main{color-scheme:light}@media (prefers-color-scheme:dark){main{color-scheme:dark}}"),
} as const;
