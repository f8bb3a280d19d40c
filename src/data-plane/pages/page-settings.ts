import type { IncomingHttpHeaders } from "node:http";
import { type Html, html } from "../../base/html.ts";
import type { Environment } from "../../gen/latchkey/v1/environment_pb.ts";
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
  /** The application that asks; `noBrand`: not known. */
  readonly brand: PageBrand;
  /** The parameters that give the next page the same settings; only those that were requested. */
  readonly carried: Readonly<Record<string, string>>;
}

/** The application that an environment belongs to, as its users know it. Empty texts: not known. */
export interface PageBrand {
  readonly name: string;
  /** A `data:` URI. */
  readonly logo: string;
  readonly accent: string;
  readonly supportUrl: string;
  /** The application's address. */
  readonly home: string;
}

export const noBrand: PageBrand = { name: "", logo: "", accent: "", supportUrl: "", home: "" };

interface SettingsSource {
  readonly lang: string;
  readonly theme: string;
  readonly headers: IncomingHttpHeaders;
}

/** Returns a request's settings: `lang` and `theme` of the query, as the frontend SDK sends them, or the browser's. */
export function settingsOf({
  rawQuery,
  headers,
}: {
  readonly rawQuery: string;
  readonly headers: IncomingHttpHeaders;
}): PageSettings {
  const query = new URLSearchParams(rawQuery);
  return pageSettings({ lang: query.get("lang") ?? "", theme: query.get("theme") ?? "", headers });
}

/** Returns page settings. An unsupported language falls back to the browser's, and then to English. */
export function pageSettings({ lang, theme: wanted, headers }: SettingsSource): PageSettings {
  const requested = supported(lang);
  const language = requested ?? browserLanguage(headers["accept-language"] ?? "") ?? "en";
  const theme = wanted === "light" || wanted === "dark" ? wanted : "system";
  return {
    language,
    texts: languages[language] ?? en,
    theme,
    brand: noBrand,
    carried: {
      ...(requested === undefined ? {} : { lang: requested }),
      ...(theme === "system" ? {} : { theme }),
    },
  };
}

/** Returns the settings of a page of an environment. */
export const branded = (settings: PageSettings, environment: BrandedEnvironment | undefined): PageSettings => ({
  ...settings,
  brand: environment === undefined ? noBrand : brandOf(environment),
});

/** Returns the branding of an environment. Its only allowed origin is the address of its application. */
function brandOf({ branding, allowedOrigins }: BrandedEnvironment): PageBrand {
  const { name = "", logo = "", accentColor: accent = "", supportUrl = "" } = branding ?? {};
  const [home = "", second] = allowedOrigins;
  return { name, logo, accent, supportUrl, home: second === undefined ? home : "" };
}

type BrandedEnvironment = Pick<Environment, "branding" | "allowedOrigins">;

/** Returns the supported language of a tag: `fr` for `fr-CA`. */
function supported(tag: string): string | undefined {
  const [primary = ""] = tag.trim().toLowerCase().split(/[-_]/, 1);
  return Object.hasOwn(languages, primary) ? primary : undefined;
}

/** Returns the supported language with the highest weight, or the first of equals (RFC 9110, section 12.5.4). */
function browserLanguage(acceptLanguage: string): string | undefined {
  const ranges = acceptLanguage.split(",").map((range) => {
    const [tag = "", ...parameters] = range.split(";");
    const [, weight = "1"] = /^\s*q=([\d.]+)\s*$/i.exec(parameters.at(-1) ?? "") ?? [];
    return { language: supported(tag), weight: Number(weight) };
  });
  const fitting = ranges.filter(({ language, weight }) => language !== undefined && weight > 0);
  return fitting.sort((a, b) => b.weight - a.weight)[0]?.language;
}

/** Returns the query of a form's address, so that even a page about an unreadable request has the same settings. */
export function settingsQuery({ carried }: PageSettings, more: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams({ ...carried, ...more }).toString();
  return query === "" ? "" : `?${query}`;
}

/** Replaces the words in braces of a text. */
export const filled = (text: string, values: Readonly<Record<string, string>>): string =>
  text.replace(/\{(\w+)\}/g, (word, name: string) => values[name] ?? word);

/** Replaces the words in braces of a text by markup. */
export function filledHtml(text: string, values: Readonly<Record<string, Html>>): Html {
  const parts = text.split(/(\{\w+\})/).map((part) => values[part.slice(1, -1)] ?? html`${part}`);
  return html`${parts}`;
}

/** Translates a text of a provider, if the provider is in the catalogue. */
export const provided = ({ texts }: PageSettings, text: string): string =>
  Object.hasOwn(texts.provided, text) ? (texts.provided[text] ?? text) : text;
