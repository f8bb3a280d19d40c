import type { IncomingHttpHeaders } from "node:http";
import { type Html, html } from "../../base/html.ts";
import { de } from "./texts/de.ts";
import { en, type PageTexts } from "./texts/en.ts";
import { es } from "./texts/es.ts";
import { fr } from "./texts/fr.ts";
import { ja } from "./texts/ja.ts";

/** The languages of the pages, by their code (BCP 47). */
export const languages: Readonly<Record<string, PageTexts>> = { en, de, es, fr, ja };

export type Theme = "light" | "dark" | "system";

/** The language and the theme of a page. */
export interface PageSettings {
  readonly language: string;
  readonly texts: PageTexts;
  readonly theme: Theme;
  /** The parameters by which the next page has the same; without those that were not asked for. */
  readonly carried: Readonly<Record<string, string>>;
}

interface SettingsSource {
  readonly lang: string;
  readonly theme: string;
  readonly headers: IncomingHttpHeaders;
}

/** A request's settings: `lang` and `theme` of its query, as the frontend SDK sends them, or else the browser's. */
export function settingsOf({
  rawQuery,
  headers,
}: {
  readonly rawQuery: string;
  readonly headers: IncomingHttpHeaders;
}) {
  const query = new URLSearchParams(rawQuery);
  return pageSettings({ lang: query.get("lang") ?? "", theme: query.get("theme") ?? "", headers });
}

/** A language that is not there gives way to the browser's, and that to English. */
export function pageSettings({ lang, theme: wanted, headers }: SettingsSource): PageSettings {
  const asked = supported(lang);
  const language = asked ?? browserLanguage(headers["accept-language"] ?? "") ?? "en";
  const theme = wanted === "light" || wanted === "dark" ? wanted : "system";
  return {
    language,
    texts: languages[language] ?? en,
    theme,
    carried: {
      ...(asked === undefined ? {} : { lang: asked }),
      ...(theme === "system" ? {} : { theme }),
    },
  };
}

/** `fr-CA` is read as `fr`. */
function supported(tag: string): string | undefined {
  const [primary = ""] = tag.trim().toLowerCase().split(/[-_]/, 1);
  return Object.hasOwn(languages, primary) ? primary : undefined;
}

/** RFC 9110, section 12.5.4: the supported language with the highest weight; of equal ones, the first. */
function browserLanguage(acceptLanguage: string): string | undefined {
  const ranges = acceptLanguage.split(",").map((range) => {
    const [tag = "", ...parameters] = range.split(";");
    const [, weight = "1"] = /^\s*q=([\d.]+)\s*$/i.exec(parameters.at(-1) ?? "") ?? [];
    return { language: supported(tag), weight: Number(weight) };
  });
  const fitting = ranges.filter(({ language, weight }) => language !== undefined && weight > 0);
  return fitting.sort((a, b) => b.weight - a.weight)[0]?.language;
}

/** For the address of a form, so that a page about a request that could not be read has the same settings. */
export function settingsQuery({ carried }: PageSettings, more: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams({ ...carried, ...more }).toString();
  return query === "" ? "" : `?${query}`;
}

/** A text with its words in braces replaced. */
export const filled = (text: string, values: Readonly<Record<string, string>>): string =>
  text.replace(/\{(\w+)\}/g, (word, name: string) => values[name] ?? word);

/** The same with markup for the words. */
export function filledHtml(text: string, values: Readonly<Record<string, Html>>): Html {
  const parts = text.split(/(\{\w+\})/).map((part) => values[part.slice(1, -1)] ?? html`${part}`);
  return html`${parts}`;
}

/** A provider's own text: translated where it is one of the catalogue's. */
export const provided = ({ texts }: PageSettings, text: string): string =>
  Object.hasOwn(texts.provided, text) ? (texts.provided[text] ?? text) : text;
