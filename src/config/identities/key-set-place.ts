import type { KeySetPlace } from "../../core/identities/identity-rules.ts";
import { type KeyUse, keysIn } from "../../core/identities/verification-keys.ts";
import type { FileReader } from "../secrets.ts";
import { describeUnreadable } from "../unreadable.ts";
import type { Refuse } from "../values.ts";

/** Fields of the configuration file that say where an issuer's keys are. */
export interface FileKeySet {
  readonly jwks_file?: string | undefined;
  readonly jwks_url?: string | undefined;
  readonly ca?: string | undefined;
  readonly token_file?: string | undefined;
}

interface KeySetSource {
  /** Place of the issuer in the file. */
  readonly at: string;
  /** URL of the issuer; empty if it has none. */
  readonly issuer: string;
  readonly uses: readonly KeyUse[];
  readonly files: FileReader;
  readonly refuse: Refuse;
}

/** Plain HTTP would let the network replace the keys; towards this host there is no network. */
export const isSafeUrl = (url: string): boolean =>
  URL.canParse(url) &&
  (/^https:\/\/[^/]/.test(url) || /^http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?:\/|$)/.test(url));

/** Reads where an issuer's keys are. Reports all mistakes. */
export function keySetPlaceOf(fields: FileKeySet, { at, issuer, uses, files, refuse }: KeySetSource): KeySetPlace {
  const { jwks_file: path, jwks_url: url, ca, token_file: tokenFile } = fields;
  const read = (field: string, file: string): string | undefined => {
    try {
      return files.read(file).text;
    } catch (error) {
      refuse(`${at}.${field}: ${describeUnreadable(file, error)}`);
      return undefined;
    }
  };
  if (path !== undefined) {
    for (const [field, value] of Object.entries({ jwks_url: url, ca, token_file: tokenFile })) {
      if (value !== undefined) refuse(`${at}.${field}: has no use beside jwks_file; remove one of them`);
    }
    const text = read("jwks_file", path);
    try {
      return { kind: "file", path, keys: text === undefined ? [] : keysIn(text, uses) };
    } catch (error) {
      refuse(`${at}.jwks_file: ${(error as Error).message}`);
      return { kind: "file", path, keys: [] };
    }
  }
  if (url !== undefined && !isSafeUrl(url)) refuse(`${at}.jwks_url: must be an https URL`);
  const authority = ca === undefined ? undefined : read("ca", ca);
  if (authority !== undefined && !authority.includes("-----BEGIN CERTIFICATE-----")) {
    refuse(`${at}.ca: ${ca} holds no certificate in PEM`);
  }
  return { kind: "url", url, issuer, ca: authority, tokenFile };
}
