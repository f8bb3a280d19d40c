import { create } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import {
  type Integration,
  type IntegrationSecrets,
  type IntegrationWarning,
  IntegrationWarningSchema,
  OAuthApp_Publishing,
} from "../gen/latchkey/v1/integration_pb.ts";
import { type OAuth2Rules, type Provider, ScopeNote_Sensitivity } from "../gen/latchkey/v1/provider_pb.ts";
import { hasCallback, isConfusable } from "./callback-address.ts";
import { missingSettings } from "./integration-settings.ts";
import { discoveredServer } from "./mcp/discovered-server.ts";
import { wantsWebhookSecret, webhookSecret } from "./notifications/proof.ts";

interface OAuthSetup {
  readonly provider: Provider;
  readonly publishing: OAuthApp_Publishing;
  /** Scopes that end users are asked for. */
  readonly scopes: readonly string[];
}

/**
 * Warnings about an integration that follow from its provider's data, in the order in which they will cause problems.
 */
export function integrationWarnings(
  { oauth, hosts }: Pick<Integration, "oauth" | "hosts">,
  provider: Provider | undefined,
): IntegrationWarning[] {
  const ofHosts = hostPrefixIgnored(hosts);
  if (provider?.auth.case !== "oauth2") return ofHosts;
  const { scopes = [], publishing = OAuthApp_Publishing.UNSPECIFIED } = oauth ?? {};
  const asked = scopes.length > 0 ? scopes : provider.auth.value.defaultScopes;
  return [...warningsOf({ provider, publishing, scopes: asked }), ...ofHosts];
}

function hostPrefixIgnored(hosts: Integration["hosts"]): IntegrationWarning[] {
  const ignored = hosts.filter(({ prefix }) => prefix !== "").map(({ prefix, origin }) => `${prefix} (${origin})`);
  if (ignored.length === 0) return [];
  const message =
    `hosts has prefixes that are ignored: ${ignored.join(", ")}. Only a provider's description can send paths to ` +
    "another host; use Base-Url-Override to reach a host of an integration";
  return [warning("host_prefix_ignored", message, [])];
}

/** Warnings for any set of scopes, such as those that one end user is about to be asked for. */
export function warningsOf({ provider, publishing, scopes }: OAuthSetup): IntegrationWarning[] {
  if (provider.auth.case !== "oauth2") return [];
  const told = { name: provider.displayName || provider.name, rules: provider.auth.value, scopes };
  const lasting = noRefreshTokens(told);
  if (publishing === OAuthApp_Publishing.PRODUCTION) return lasting;
  const ofTesting = [...shortLived(told), ...verificationNeeded(told)];
  if (publishing === OAuthApp_Publishing.TESTING) return [...lasting, ...ofTesting];
  return [...lasting, ...(ofTesting.length === 0 ? [] : [publishingUnknown(ofTesting)])];
}

/** Warns of an integration whose accounts cannot be connected: the OAuth app is not set. */
export function clientMissing(
  { oauth }: Pick<Integration, "oauth">,
  provider: Provider | undefined,
): IntegrationWarning | undefined {
  if (provider === undefined || !hasCallback(provider) || (oauth?.clientId ?? "") !== "") return undefined;
  const message =
    "it has no client_id: end users cannot connect accounts, and tokens cannot be refreshed; " +
    `set client_id and client_secret of the app that you registered at ${provider.displayName || provider.name}`;
  return warning("client_missing", message, []);
}

/** Warns of an MCP server that could not be read, or that has moved to another authorization server. */
export function mcpWarnings(
  { oauth }: Pick<Integration, "oauth">,
  provider: Provider | undefined,
): IntegrationWarning[] {
  const mcp = discoveredServer(provider);
  if (provider === undefined || mcp === undefined) return [];
  const { auth } = provider;
  const { registration, clientId = "" } = oauth ?? {};
  const issuer = auth.case === "oauth2" ? auth.value.issuer : "";
  const isMoved = clientId !== "" && registration !== undefined && registration.issuer !== issuer;
  const moved = `its client is registered at ${registration?.issuer || "no issuer"}, and the MCP server now uses ${issuer || "none"}: enter a client of that authorization server`;
  return [
    ...(mcp.failure === "" ? [] : [warning("discovery_failed", mcp.failure, [])]),
    ...(isMoved ? [warning("issuer_changed", moved, [])] : []),
  ];
}

/** Warns of required settings that have no value. Kept apart because it may need the integration's secrets. */
export function settingsMissing(
  { settings }: Pick<Integration, "settings">,
  provider: Provider | undefined,
  secrets: Pick<IntegrationSecrets, "settings"> | undefined,
): IntegrationWarning[] {
  if (provider === undefined) return [];
  return missingSettings(provider, { settings, secrets }).map(({ name, title }) => {
    const message = `it has no ${title || name}, which ${provider.displayName || provider.name} requires: set settings.${name}`;
    return warning("setting_missing", message, []);
  });
}

/** Kept apart because it needs the integration's secrets. */
export function webhooksUnproven(
  provider: Provider | undefined,
  secrets: Pick<IntegrationSecrets, "webhookSecret" | "clientSecret">,
): IntegrationWarning | undefined {
  if (provider === undefined || !wantsWebhookSecret(provider)) return undefined;
  if (webhookSecret(provider.notification?.signature, secrets) !== "") return undefined;
  const message =
    `webhooks of ${provider.displayName || provider.name} are accepted without proof from anyone who knows the webhook URL: ` +
    "set webhook_secret to the secret that signs them";
  return warning("webhooks_unproven", message, []);
}

/** Warns that the integrations in `others` share its redirect URI. */
export function sharedCallback(
  integration: Integration,
  provider: Provider | undefined,
  others: readonly Pick<Integration, "environment" | "key">[],
): IntegrationWarning | undefined {
  if (!isConfusable(integration, provider) || others.length === 0) return undefined;
  const named = others.map(({ environment, key }) => `${key} (${environment})`).join(", ");
  const message =
    `it shares its redirect URI with ${named}, and ${provider.displayName || provider.name} has no known issuer that ` +
    "would identify its answers: set callback to bound, and register the new callback_url at the provider; " +
    "or describe the provider's issuer";
  return warning("shared_callback", message, []);
}

interface ScopeWarningInput {
  /** The provider's name for people. */
  readonly name: string;
  readonly rules: OAuth2Rules;
  readonly scopes: readonly string[];
}

const warning = (code: string, message: string, scopes: readonly string[]) =>
  create(IntegrationWarningSchema, { code, message, scopes: [...scopes] });

function shortLived({ name, rules, scopes }: ScopeWarningInput): IntegrationWarning[] {
  const { testingLifetime, testingExemptScopes = [] } = rules.refreshTokens ?? {};
  const harmful = scopes.filter((scope) => !testingExemptScopes.includes(scope));
  if (testingLifetime === undefined || harmful.length === 0) return [];
  const message =
    `while the app is in testing and not for one organization alone, refresh tokens of ${name} die ` +
    `${daysOf(durationMs(testingLifetime))} after they were issued, and every end user must authorize again: ` +
    "publish the app, then set publishing to production";
  return [warning("short_lived_refresh_tokens", message, harmful)];
}

function verificationNeeded({ name, rules, scopes }: ScopeWarningInput): IntegrationWarning[] {
  const classed = (wanted: ScopeNote_Sensitivity) =>
    scopes.filter((scope) => rules.scopeNotes.some((note) => note.scope === scope && note.sensitivity === wanted));
  const sensitive = classed(ScopeNote_Sensitivity.SENSITIVE);
  const restricted = classed(ScopeNote_Sensitivity.RESTRICTED);
  if (sensitive.length + restricted.length === 0) return [];
  const assessment =
    restricted.length === 0 ? "" : ` and, for ${restricted.join(", ")}, a security assessment, which takes weeks`;
  const message = `before the app goes live, ${name} requires verification for ${[...sensitive, ...restricted].join(", ")}${assessment}`;
  return [warning("verification_needed", message, [...sensitive, ...restricted])];
}

function publishingUnknown(ofTesting: readonly IntegrationWarning[]): IntegrationWarning {
  const scopes = [...new Set(ofTesting.flatMap((one) => one.scopes))];
  const message = `say whether the app is in testing or production (publishing); if it is in testing: ${ofTesting
    .map((one) => one.message)
    .join("; ")}`;
  return warning("publishing_unknown", message, scopes);
}

function noRefreshTokens({ name, rules, scopes }: ScopeWarningInput): IntegrationWarning[] {
  const needed = rules.refreshTokens?.scopes ?? [];
  if (needed.length === 0 || needed.some((scope) => scopes.includes(scope))) return [];
  const message = `${name} gives no refresh tokens unless ${needed.join(" or ")} is among the scopes: a connection ends with its first access token`;
  return [warning("no_refresh_tokens", message, needed)];
}

/** Maximum number of refresh tokens that one account may have of one client; 0: no known limit. */
export const maxRefreshTokens = ({ auth }: Provider): number =>
  auth.case === "oauth2" ? (auth.value.refreshTokens?.maxPerAccount ?? 0) : 0;

/** Share of the limit at which the operator is warned. */
const usedUpShare = 0.9;

/** Warns when one account has used up most of its refresh tokens of one client; checked on each new token. */
export function refreshTokensUsedUp(provider: Provider, live: number): IntegrationWarning | undefined {
  const most = maxRefreshTokens(provider);
  if (most === 0 || live <= most * usedUpShare) return undefined;
  const message =
    `${live} of the ${most} refresh tokens that one account of ${provider.displayName || provider.name} may have of ` +
    "this app are used up; one more than that, and the oldest stops working: revoke unused ones";
  return warning("refresh_tokens_used_up", message, []);
}

function daysOf(ms: number): string {
  const days = Math.round(ms / 86_400_000);
  return days === 1 ? "1 day" : `${days} days`;
}
