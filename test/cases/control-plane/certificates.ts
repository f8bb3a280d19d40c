import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A certificate and its key, as PEM files. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

export interface Authority extends Certificate {
  /** A certificate of this authority's for these alternative names, such as `DNS:app.test`. */
  issue(name: string, options: { readonly names: string; readonly days?: number }): Certificate;
}

/** An authority of one's own in a folder, made with `openssl`. */
export function createAuthority(folder: string, name: string): Authority {
  const at = (file: string) => join(folder, file);
  const openssl = (...args: readonly string[]) => void execFileSync("openssl", args, { stdio: "ignore" });
  const newKey = (file: string) => openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", at(file));

  newKey(`${name}.key`);
  openssl(
    "req",
    "-x509",
    "-new",
    "-key",
    at(`${name}.key`),
    "-subj",
    `/CN=${name}`,
    "-days",
    "2",
    "-out",
    at(`${name}.crt`),
  );
  return {
    cert: at(`${name}.crt`),
    key: at(`${name}.key`),
    issue(issued, { names, days = 2 }) {
      newKey(`${issued}.key`);
      openssl("req", "-new", "-key", at(`${issued}.key`), "-subj", `/CN=${issued}`, "-out", at(`${issued}.csr`));
      writeFileSync(at(`${issued}.cnf`), `subjectAltName=${names}\n`);
      openssl(
        ...["x509", "-req", "-in", at(`${issued}.csr`), "-days", String(days), "-extfile", at(`${issued}.cnf`)],
        ...["-CA", at(`${name}.crt`), "-CAkey", at(`${name}.key`), "-CAcreateserial", "-out", at(`${issued}.crt`)],
      );
      return { cert: at(`${issued}.crt`), key: at(`${issued}.key`) };
    },
  };
}

export const pem = (file: string): Buffer => readFileSync(file);
