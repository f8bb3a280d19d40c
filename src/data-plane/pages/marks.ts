import { type Html, html } from "../../base/html.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { PageBrand } from "./page-settings.ts";

/** Fills of the marks; white on each has at least 4.5:1. */
const fills = [
  ...["#4f46e5", "#7c3aed", "#a21caf", "#be185d", "#be123c", "#b45309"],
  ...["#4d7c0f", "#15803d", "#0f766e", "#0e7490", "#1d4ed8", "#475569"],
] as const;

/** Lines of the glyphs, in a square of 24, by a provider's category. All drawn for latchkey; none is a trademark. */
const glyphs: Readonly<Record<string, string>> = {
  calendar: "M4 8a2 2 0 0 1 2-2h12a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2zM4 11h16M8 3.5V8M16 3.5V8",
  mail: "M3.5 7.5a2 2 0 0 1 2-2h13a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2h-13a2 2 0 0 1-2-2zM4 7.5l8 6 8-6",
  "file-storage": "M3.5 7a2 2 0 0 1 2-2h3.7l2.3 2.5h7a2 2 0 0 1 2 2V17a2 2 0 0 1-2 2h-13a2 2 0 0 1-2-2z",
  spreadsheets:
    "M4.5 6a1.5 1.5 0 0 1 1.5-1.5h12A1.5 1.5 0 0 1 19.5 6v12a1.5 1.5 0 0 1-1.5 1.5H6A1.5 1.5 0 0 1 4.5 18zM4.5 9.5h15M4.5 14.5h15M10 9.5v10",
  documents:
    "M7 3.5h6.5L18 8v11a1.5 1.5 0 0 1-1.5 1.5h-9A1.5 1.5 0 0 1 6 19V5a1.5 1.5 0 0 1 1-1.4M13.5 3.5V8H18M9 12.5h6M9 16h6",
  communication:
    "M4 7a2 2 0 0 1 2-2h12a2 2 0 0 1 2 2v7.5a2 2 0 0 1-2 2h-6l-4.5 3.5v-3.5H6a2 2 0 0 1-2-2zM8.5 9.5h7M8.5 12.5h4.5",
  "developer-tools": "M8.5 8L4.5 12l4 4M15.5 8l4 4-4 4M13.5 5.5l-3 13",
  crm: "M12 11a3 3 0 1 0-6 0 3 3 0 0 0 6 0M3.5 19.5a5.5 5.5 0 0 1 11 0M15.5 8.5a2.5 2.5 0 0 1 0 5M17 15.5a5 5 0 0 1 3.5 4",
  payments: "M3.5 8a2 2 0 0 1 2-2h13a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2h-13a2 2 0 0 1-2-2zM3.5 10.5h17M7 14.5h3",
  "e-commerce": "M6.5 8.5h11l1 11.5h-13zM9 8.5V7.5a3 3 0 0 1 6 0v1",
  "project-management": "M4.5 7l1.5 1.5L8.5 6M12 7.5h7.5M4.5 15.5L6 17l2.5-2.5M12 16h7.5",
  support:
    "M4.5 14v-2a7.5 7.5 0 0 1 15 0v2M4.5 13.5h2.5V18H6a1.5 1.5 0 0 1-1.5-1.5zM19.5 13.5H17V18h1a1.5 1.5 0 0 0 1.5-1.5zM19.5 16.5a4 4 0 0 1-4 3.5H13",
};

/** Returns the mark of a provider: the glyph of its kind, or initials. The same provider always has the same color. */
export function providerMark({ name, categories }: Provider, title: string): Html {
  const [category] = categories.filter((one) => Object.hasOwn(glyphs, one));
  const fill = fills[hashOf(name) % fills.length] ?? fills[0];
  const path = category === undefined ? undefined : glyphs[category];
  return path === undefined ? initialsMark(title, fill) : glyphMark(path, fill);
}

const glyphMark = (path: string, fill: string): Html =>
  html`<svg class="mark" viewBox="0 0 48 48" aria-hidden="true"><rect width="48" height="48" rx="12" fill="${fill}"/><path transform="translate(6.6 6.6) scale(1.45)" fill="none" stroke="#fff" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" d="${path}"/></svg>`;

const initialsMark = (title: string, fill: string): Html =>
  html`<svg class="mark" viewBox="0 0 48 48" aria-hidden="true"><rect width="48" height="48" rx="12" fill="${fill}"/><text x="24" y="25" fill="#fff" font-size="18" font-weight="600" text-anchor="middle" dominant-baseline="central">${initialsOf(title)}</text></svg>`;

/** Returns the first letters of two words. */
function initialsOf(title: string): string {
  const words = title.match(/[\p{L}\p{N}]+/gu) ?? ["?"];
  return words
    .slice(0, 2)
    .map((word) => [...word][0]?.toUpperCase() ?? "")
    .join("");
}

/** FNV-1a. */
function hashOf(text: string): number {
  let value = 0x811c9dc5;
  for (const byte of Buffer.from(text)) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  return value;
}

/** Returns the mark of the application: its logo or initials; undefined: it has no name. */
export function brandMark({ name, logo }: PageBrand): Html | undefined {
  if (logo !== "") return html`<img class="mark logo" src="${logo}" alt="">`;
  return name === "" ? undefined : initialsMark(name, "#3f4654");
}

const dots = html`<svg class="link-dots" width="28" height="4" viewBox="0 0 28 4" aria-hidden="true"><g fill="currentColor"><circle cx="2" cy="2" r="2"/><circle cx="10" cy="2" r="2"/><circle cx="18" cy="2" r="2"/><circle cx="26" cy="2" r="2"/></g></svg>`;

/** Returns the row of marks above a title. */
export function marksRow(marks: readonly (Html | undefined)[]): Html {
  const shown = marks.filter((mark) => mark !== undefined);
  if (shown.length === 0) return html``;
  return html`<div class="marks">${shown.flatMap((mark, i) => (i === 0 ? [mark] : [dots, mark]))}</div>`;
}

const statusPaths = {
  good: "M16 26.5l6.5 6.5L37 18.5",
  bad: "M26 16v12.5M26 35.5v.1",
  over: "M26 17v9.5l6 3.5",
} as const;

/** Returns the sign of an outcome: done, failed, or too late. */
export function statusMark(kind: keyof typeof statusPaths): Html {
  const color = kind === "over" ? "quiet" : kind;
  return html`<svg class="status ${color}" viewBox="0 0 52 52" aria-hidden="true"><circle cx="26" cy="26" r="24.5" fill="none" stroke="currentColor" stroke-width="2.5"/><path fill="none" stroke="currentColor" stroke-width="3.5" stroke-linecap="round" stroke-linejoin="round" d="${statusPaths[kind]}"/></svg>`;
}

export const chevron = html`<svg class="go" width="16" height="16" viewBox="0 0 16 16" aria-hidden="true"><path fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" d="M6 3.5L10.5 8 6 12.5"/></svg>`;
export const cross = html`<svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true"><path fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" d="M4 4l10 10M14 4L4 14"/></svg>`;
