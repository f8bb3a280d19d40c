import { readFile } from "node:fs/promises";
import { getCACertificates } from "node:tls";

/** Bundles of distributions: Debian and Alpine, Fedora, openSUSE, macOS. */
const usualBundles = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

/** Returns the authorities that programs of this system trust, in PEM: the bundle of `SSL_CERT_FILE`, or a usual one. */
export async function systemAuthorities(env: Readonly<Record<string, string | undefined>>): Promise<string> {
  const chosen = env["SSL_CERT_FILE"];
  for (const path of chosen ? [chosen] : usualBundles) {
    try {
      const text = await readFile(path, "utf8");
      return text.endsWith("\n") ? text : `${text}\n`;
    } catch (error) {
      if (chosen !== undefined || (error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
  // A system without a bundle: the authorities that Node brings.
  return `${getCACertificates("bundled").join("\n")}\n`;
}
