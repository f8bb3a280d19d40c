import { createHash, X509Certificate } from "node:crypto";
import type { ProgramFiles } from "./program-files.ts";

/** What a browser needs in order to reach providers through the forward proxy. */
export interface BrowserProgram {
  readonly files: Pick<ProgramFiles, "browser">;
  /** The authorities of the forward proxy, PEM. */
  readonly authorities: string;
  /** Address of the port for programs that cannot send a key; undefined: there is none. */
  readonly localPort: { readonly host: string; readonly port: number } | undefined;
}

/**
 * Chromium sends no key of a proxy's address either, and has a store of authorities of its own. With these flags it
 * trusts the authorities of the forward proxy in a profile of this run.
 */
export function chromiumFlags(
  { files: { browser }, authorities }: BrowserProgram,
  { host, port }: NonNullable<BrowserProgram["localPort"]>,
): string[] {
  const keys = authorities.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g) ?? [];
  const digests = keys.map((pem) => {
    const key = new X509Certificate(pem).publicKey.export({ type: "spki", format: "der" });
    return createHash("sha256").update(key).digest("base64");
  });
  return [
    `--proxy-server=${host}:${port}`,
    `--ignore-certificate-errors-spki-list=${digests.join(",")}`,
    `--user-data-dir=${browser}`,
  ];
}
