import { keysIn } from "../../broker/identities/issuer-keys.ts";
import {
  type AccountGrant,
  type CertificateGrant,
  type EdgeIdentityRules,
  type KeySetPlace,
  noEdgeIdentities,
} from "../../core/identities/identity-rules.ts";
import type { ConfigFile } from "../file.ts";
import type { FileReader } from "../secrets.ts";
import { describeUnreadable } from "../unreadable.ts";
import type { Refuse } from "../values.ts";

export type { EdgeIdentityRules };

interface EdgeIdentitySource {
  readonly file: ConfigFile;
  readonly files: FileReader;
  readonly refuse: Refuse;
}

type EdgesFile = NonNullable<ConfigFile["edges"]>;
type AccountsFile = NonNullable<EdgesFile["service_accounts"]>;

/** Reads who may follow as an edge without a key. */
export function edgeIdentitiesOf({ file, files, refuse }: EdgeIdentitySource): EdgeIdentityRules {
  const { edges } = file;
  if (edges === undefined) return noEdgeIdentities;
  const { service_accounts: accounts, certificates = [] } = edges;
  if (certificates.length > 0 && file.tls?.control?.client_ca === undefined) {
    refuse("edges.certificates: needs tls.control.client_ca, the authority that the certificates are verified by");
  }
  return {
    serviceAccounts: accounts && {
      issuer: issuerIn(accounts, refuse),
      audience: accounts.audience,
      keys: keySetPlaceOf(accounts, { files, refuse }),
      grants: accounts.allow.map((one, i) => accountGrantOf(one, `edges.service_accounts.allow.${i}`, refuse)),
    },
    certificates: certificates.map((one, i) => certificateGrantOf(one, `edges.certificates.${i}`, refuse)),
  };
}

function issuerIn({ issuer }: AccountsFile, refuse: Refuse): string {
  if (!URL.canParse(issuer) || !isSafe(issuer) || /[?#]/.test(issuer)) {
    refuse("edges.service_accounts.issuer: must be the https URL in the tokens' `iss`");
  }
  return issuer;
}

/** Plain HTTP would let the network replace the keys; towards this host there is no network. */
const isSafe = (url: string): boolean =>
  /^https:\/\/[^/]/.test(url) || /^http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?:\/|$)/.test(url);

function keySetPlaceOf(
  accounts: AccountsFile,
  { files, refuse }: { readonly files: FileReader; readonly refuse: Refuse },
): KeySetPlace {
  const { issuer, jwks_file: jwksFile, jwks_url: url, ca, token_file: tokenFile } = accounts;
  const at = "edges.service_accounts";
  const read = (field: string, path: string): string | undefined => {
    try {
      return files.read(path).text;
    } catch (error) {
      refuse(`${at}.${field}: ${describeUnreadable(path, error)}`);
      return undefined;
    }
  };
  if (jwksFile !== undefined) {
    const others = { jwks_url: url, ca, token_file: tokenFile };
    for (const [field, value] of Object.entries(others)) {
      if (value !== undefined) refuse(`${at}.${field}: has no use beside jwks_file; remove one of them`);
    }
    const text = read("jwks_file", jwksFile);
    try {
      return { kind: "given", keys: text === undefined ? [] : keysIn(text) };
    } catch (error) {
      refuse(`${at}.jwks_file: ${(error as Error).message}`);
      return { kind: "given", keys: [] };
    }
  }
  if (url !== undefined && (!URL.canParse(url) || !isSafe(url))) refuse(`${at}.jwks_url: must be an https URL`);
  const authority = ca === undefined ? undefined : read("ca", ca);
  if (authority !== undefined && !authority.includes("-----BEGIN CERTIFICATE-----")) {
    refuse(`${at}.ca: ${ca} holds no certificate in PEM`);
  }
  return { kind: "fetched", url, issuer, ca: authority, tokenFile };
}

function accountGrantOf(
  { account, environments }: AccountsFile["allow"][number],
  at: string,
  refuse: Refuse,
): AccountGrant {
  const [, namespace = "", name = ""] = /^([a-z0-9-]{1,63})\/(\*|[a-z0-9.-]{1,253})$/.exec(account) ?? [];
  if (name === "") refuse(`${at}.account: must be <namespace>/<service account>, or <namespace>/* for all of them`);
  return { namespace, name, environments };
}

function certificateGrantOf(
  { name, environments }: NonNullable<EdgesFile["certificates"]>[number],
  at: string,
  refuse: Refuse,
): CertificateGrant {
  if (!/^(?:URI|DNS|CN):\S/.test(name)) refuse(`${at}.name: must begin with URI:, DNS: or CN:`);
  return { name, environments };
}
