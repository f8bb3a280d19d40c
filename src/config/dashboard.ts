import { everyone, type IdentityProvider, type NamedGrant } from "../core/identity-provider.ts";
import { scopesByName } from "../core/scopes.ts";
import { Scope } from "../gen/latchkey/v1/access_pb.ts";
import type { DoorsConfig } from "./doors.ts";
import type { ConfigFile } from "./file.ts";
import type { SecretSource } from "./secrets.ts";
import type { Refuse } from "./values.ts";
import type { VariableReader } from "./variable-reader.ts";

export interface DashboardConfig {
  /** The listener that serves the dashboard; undefined: none does. */
  readonly door: "control" | "ui" | undefined;
  /** Undefined: people sign in with keys and links only. */
  readonly identityProvider: IdentityProvider | undefined;
}

interface DashboardSource {
  readonly variables: Pick<VariableReader, "optionalChoice" | "text" | "secret">;
  readonly secrets: SecretSource;
  readonly doors: DoorsConfig;
  readonly file: ConfigFile;
  readonly refuse: Refuse;
}

/** Variables come before the file. */
export function dashboardOf(source: DashboardSource): DashboardConfig {
  const { variables, doors, file, refuse } = source;
  const chosen = variables.optionalChoice("LATCHKEY_UI", ["on", "off"]);
  const isOn = chosen === undefined ? file.dashboard?.enabled : chosen === "on";
  const identityProvider = identityProviderOf(source);
  if (isOn === false && doors.ui !== undefined) {
    refuse("LATCHKEY_UI is off, but LATCHKEY_UI_LISTEN sets an address for the dashboard; remove one of them");
  }
  if (doors.ui !== undefined) return { door: "ui", identityProvider };
  return { door: isOn === true ? "control" : undefined, identityProvider };
}

function identityProviderOf({ variables, secrets, file, refuse }: DashboardSource): IdentityProvider | undefined {
  const oidc = file.dashboard?.oidc;
  const issuer = variables.text("LATCHKEY_UI_OIDC_ISSUER") ?? oidc?.issuer;
  const clientId = variables.text("LATCHKEY_UI_OIDC_CLIENT_ID") ?? oidc?.client_id;
  const clientSecret = variables.secret("LATCHKEY_UI_OIDC_CLIENT_SECRET") ?? secretOf(oidc?.client_secret);
  if (oidc === undefined && issuer === undefined && clientId === undefined) return undefined;

  function secretOf(reference: NonNullable<typeof oidc>["client_secret"]): string | undefined {
    if (reference === undefined) return undefined;
    const outcome = "env" in reference ? secrets.fromVariable(reference.env) : secrets.fromFile(reference.file);
    if ("value" in outcome) return outcome.value;
    refuse(`dashboard.oidc.client_secret: ${outcome.mistake}`);
    return undefined;
  }

  if (issuer === undefined || !/^https?:\/\//.test(issuer) || !URL.canParse(issuer) || /[?#]/.test(issuer)) {
    refuse("dashboard.oidc.issuer (LATCHKEY_UI_OIDC_ISSUER) must be the URL of the identity provider");
  }
  if (clientId === undefined) refuse("dashboard.oidc.client_id (LATCHKEY_UI_OIDC_CLIENT_ID) is required");
  const grants = (oidc?.groups ?? []).map(({ group, environments, scopes }, i): NamedGrant => {
    const granted = new Set(scopes.map((name) => scopesByName.get(name) ?? Scope.UNSPECIFIED));
    if (granted.has(Scope.ADMIN) && environments !== undefined) {
      refuse(`dashboard.oidc.groups.${i}: the scope admin holds in every environment; leave out environments`);
    }
    if (granted.has(Scope.ADMIN) && group === everyone) {
      refuse(`dashboard.oidc.groups.${i}: name a group for the scope admin, not everyone`);
    }
    return { group, environments, scopes: granted };
  });
  if (grants.length === 0) {
    refuse("dashboard.oidc.groups must say what people may do: without it, nobody could sign in");
  }
  return {
    issuer: issuer ?? "",
    clientId: clientId ?? "",
    clientSecret,
    scopes: oidc?.scopes ?? ["openid", "email", "profile"],
    groupsClaim: oidc?.groups_claim ?? "groups",
    nameClaim: oidc?.name_claim ?? "email",
    grants,
  };
}
