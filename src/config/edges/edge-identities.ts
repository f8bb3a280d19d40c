import {
  type AccountGrant,
  type CertificateGrant,
  type EdgeIdentityRules,
  noEdgeIdentities,
} from "../../core/identities/identity-rules.ts";
import { readAccountPattern } from "../../core/identities/service-account.ts";
import type { ConfigFile } from "../file.ts";
import { isSafeUrl, keySetPlaceOf } from "../identities/key-set-place.ts";
import type { FileReader } from "../secrets.ts";
import type { Refuse } from "../values.ts";

export type { EdgeIdentityRules };

interface EdgeIdentitySource {
  readonly file: ConfigFile;
  readonly files: FileReader;
  readonly refuse: Refuse;
}

type EdgesFile = NonNullable<ConfigFile["edges"]>;
type AccountsFile = NonNullable<EdgesFile["service_accounts"]>;

const setting = "edges.service_accounts";

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
      issuer: {
        kind: "service_account",
        setting,
        name: "edges",
        issuer: issuerIn(accounts, refuse),
        audience: accounts.audience,
        keys: keySetPlaceOf(accounts, { at: setting, issuer: accounts.issuer, uses: ["sig"], files, refuse }),
      },
      grants: accounts.allow.map((one, i) => accountGrantOf(one, `${setting}.allow.${i}`, refuse)),
    },
    certificates: certificates.map((one, i) => certificateGrantOf(one, `edges.certificates.${i}`, refuse)),
  };
}

function issuerIn({ issuer }: AccountsFile, refuse: Refuse): string {
  if (!isSafeUrl(issuer) || /[?#]/.test(issuer)) {
    refuse(`${setting}.issuer: must be the https URL in the tokens' \`iss\``);
  }
  return issuer;
}

function accountGrantOf(
  { account, environments }: AccountsFile["allow"][number],
  at: string,
  refuse: Refuse,
): AccountGrant {
  const pattern = readAccountPattern(account);
  if (pattern !== undefined) return { ...pattern, environments };
  refuse(`${at}.account: must be <namespace>/<service account>, or <namespace>/* for all of them`);
  return { namespace: "", name: "", environments };
}

function certificateGrantOf(
  { name, environments }: NonNullable<EdgesFile["certificates"]>[number],
  at: string,
  refuse: Refuse,
): CertificateGrant {
  if (!/^(?:URI|DNS|CN):\S/.test(name)) refuse(`${at}.name: must begin with URI:, DNS: or CN:`);
  return { name, environments };
}
