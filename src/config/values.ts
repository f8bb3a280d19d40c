import { millisecondsIn } from "../core/duration.ts";
import { isOrigin } from "../core/outgoing/origin.ts";
import { parseStoreLocation, type StoreLocation, storeLocationForms } from "../store/location.ts";
import type { FileReader } from "./secrets.ts";
import { describeUnreadable } from "./unreadable.ts";
import type { VariableName } from "./variables.ts";

/** Reports a mistake. Messages name the setting, never a secret. */
export type Refuse = (message: string) => void;

export interface SealKeyConfig {
  readonly id: string;
  readonly secret: Uint8Array;
}

export function publicUrlOf({
  text,
  refuse,
  warn,
}: {
  text: string | undefined;
  refuse: Refuse;
  warn: Refuse;
}): string | undefined {
  if (text === undefined) return undefined;
  const valid = /^https?:\/\//.test(text) && URL.canParse(text);
  const url = valid ? new URL(text) : undefined;
  if (url === undefined || url.search + url.hash + url.username !== "") {
    refuse("LATCHKEY_PUBLIC_URL must be https://host, and may have a path");
    return undefined;
  }
  if (url.protocol === "http:" && !["localhost", "127.0.0.1", "[::1]"].includes(url.hostname)) {
    warn("LATCHKEY_PUBLIC_URL is http: providers refuse such redirect URIs, and what they send can be read on the way");
  }
  return url.href.replace(/\/+$/, "");
}

export function docsUrlOf({ text, refuse }: { text: string | undefined; refuse: Refuse }): string | undefined {
  if (text === undefined) return undefined;
  const url = /^https?:\/\//.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && url.search + url.hash + url.username === "") return url.href.replace(/\/+$/, "");
  refuse("LATCHKEY_DOCS_URL must be https://host, and may have a path");
  return undefined;
}

export function storeOf({ text, refuse }: { text: string; refuse: Refuse }): StoreLocation {
  const location = parseStoreLocation(text);
  // The message does not quote the value, which may contain a password.
  if (location === undefined) refuse(`LATCHKEY_STORE must be ${storeLocationForms}`);
  return location ?? { kind: "level", folder: "" };
}

/** Reads `host:port` or `http://host:port` entries: a name or an address, always with a port. */
export function allowPrivateOf({ text, refuse }: { text: string | undefined; refuse: Refuse }): string[] {
  const entries = (text ?? "").split(",").flatMap((part) => part.trim() || []);
  for (const entry of entries) {
    if (/^(?:http:\/\/)?(?:\[[0-9a-f:.]+\]|[a-z0-9.-]+):[1-9][0-9]{0,4}$/i.test(entry)) continue;
    refuse(`LATCHKEY_ALLOW_PRIVATE: ${JSON.stringify(entry)} must be host:port or http://host:port`);
  }
  return entries;
}

interface SealKeysText {
  readonly text: string | undefined;
  /** A file is named for it. If it cannot be used, that is reported already. */
  readonly isInFile: boolean;
  readonly refuse: Refuse;
}

export function sealKeysOf({ text, isInFile, refuse }: SealKeysText): SealKeyConfig[] {
  if (text === undefined) {
    if (isInFile) return [];
    refuse("LATCHKEY_SEAL_KEYS is required: id:base64 of 32 random bytes, such as from `openssl rand -base64 32`");
    return [];
  }
  const keys = text.split(",").flatMap((part, i) => {
    const [, id, encoded = ""] = /^([A-Za-z0-9_.-]{1,64}):(.*)$/.exec(part.trim()) ?? [];
    if (id === undefined) {
      refuse(`LATCHKEY_SEAL_KEYS: entry ${i + 1} must be id:base64`);
      return [];
    }
    const secret = Buffer.from(encoded, "base64");
    if (secret.toString("base64").replaceAll("=", "") !== encoded.replaceAll("=", "")) {
      refuse(`LATCHKEY_SEAL_KEYS: the key "${id}" is not base64`);
      return [];
    }
    if (secret.length !== 32) {
      refuse(`LATCHKEY_SEAL_KEYS: the key "${id}" has ${secret.length} bytes; it must have 32`);
      return [];
    }
    return [{ id, secret }];
  });
  const ids = keys.map(({ id }) => id);
  for (const id of ids.filter((one, i) => ids.indexOf(one) !== i))
    refuse(`LATCHKEY_SEAL_KEYS: the key id "${id}" is a duplicate`);
  return keys;
}

const minKeyLength = 16;

export function pinned({
  name,
  value,
  refuse,
}: {
  name: string;
  value: string | undefined;
  refuse: Refuse;
}): string | undefined {
  if (value === undefined) return undefined;
  if (value.length < minKeyLength) refuse(`${name} must have at least ${minKeyLength} characters`);
  if (!/^[\x21-\x7e]+$/.test(value)) refuse(`${name} must be printable ASCII without blanks`);
  return value;
}

interface Duration {
  readonly name: VariableName;
  readonly text: string;
  readonly refuse: Refuse;
}

/** Returns bytes. */
export function mebibytesOf({ name, text, refuse }: Duration): number {
  if (!/^(0|[1-9][0-9]{0,5})$/.test(text)) refuse(`${name} must be a number of MiB from 0 to 999999`);
  return Number(text) * 1_048_576 || 0;
}

export function durationOf({ name, text, refuse }: Duration): number {
  const ms = millisecondsIn(text);
  if (ms === undefined) refuse(`${name} must be a duration such as 25s`);
  return ms ?? 0;
}

interface ChoiceRule<T extends string> {
  readonly name: string;
  readonly of: readonly T[];
  readonly refuse: Refuse;
}

export function optionalChoice<T extends string>({
  name,
  text,
  of,
  refuse,
}: ChoiceRule<T> & { text: string | undefined }): T | undefined {
  const chosen = of.find((one) => one === text);
  if (text !== undefined && chosen === undefined) refuse(`${name} must be one of ${of.join(", ")}`);
  return chosen;
}

export function choice<T extends string>(rule: ChoiceRule<T> & { text: string }): T {
  const [first] = rule.of;
  const chosen = optionalChoice(rule) ?? first;
  if (chosen === undefined) throw new Error("a choice has options");
  return chosen;
}

/** Reads the origins of the application's pages; undefined if none are set. */
export function originsOf({ text, refuse }: { text: string | undefined; refuse: Refuse }): string[] | undefined {
  if (text === undefined) return undefined;
  const origins = text.split(",").map((one) => one.trim());
  for (const one of origins) {
    if (isOrigin(one)) continue;
    refuse(`LATCHKEY_ALLOWED_ORIGINS: ${JSON.stringify(one)} must be an origin such as https://app.example.com`);
  }
  return [...new Set(origins)];
}

export const logLevels = ["debug", "info", "warn", "error"] as const;
export const logFormats = ["json", "pretty"] as const;

interface CaSource {
  readonly path: string | undefined;
  readonly files: FileReader;
  readonly refuse: Refuse;
}

/** Reads the certificates that providers' own are checked with, beside those of the system. */
export function providerCaOf({ path, files, refuse }: CaSource): string | undefined {
  if (path === undefined) return undefined;
  try {
    const { text } = files.read(path);
    if (text.includes("-----BEGIN CERTIFICATE-----")) return text;
    refuse(`LATCHKEY_PROVIDER_CA: ${path} holds no certificate in PEM`);
  } catch (error) {
    refuse(`LATCHKEY_PROVIDER_CA: ${describeUnreadable(path, error)}`);
  }
  return undefined;
}
