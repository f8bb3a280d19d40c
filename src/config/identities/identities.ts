import { create } from "@bufbuild/protobuf";
import { mistakesInLimits } from "../../core/access/limit-mistakes.ts";
import {
  type GrantSubject,
  type IdentityGrant,
  type IdentityRules,
  noIdentities,
  type TokenIssuer,
} from "../../core/identities/identity-rules.ts";
import { readAccountPattern } from "../../core/identities/service-account.ts";
import { isTrustDomain, readSpiffePattern } from "../../core/identities/spiffe.ts";
import { limitableScopes, scopeName, scopesByName } from "../../core/scopes.ts";
import {
  type AccessLimits,
  AccessLimitsSchema,
  LimitedConnectionSchema,
  Scope,
} from "../../gen/latchkey/v1/access_pb.ts";
import type { FileLimits } from "../access/access-limits.ts";
import type { ConfigFile } from "../file.ts";
import type { FileReader } from "../secrets.ts";
import type { Refuse } from "../values.ts";
import { isSafeUrl, keySetPlaceOf } from "./key-set-place.ts";

export type { IdentityRules };

interface IdentitySource {
  readonly file: ConfigFile;
  readonly files: FileReader;
  readonly refuse: Refuse;
}

type IdentitiesFile = NonNullable<ConfigFile["identities"]>;
type IssuerFile = NonNullable<IdentitiesFile["issuers"]>[number];
type RuleFile = NonNullable<IdentitiesFile["rules"]>[number];

/** Reads who may call without a key. Reports all mistakes. */
export function identitiesOf({ file, files, refuse }: IdentitySource): IdentityRules {
  const { identities } = file;
  if (identities === undefined) return noIdentities;
  const { issuers = [], rules = [] } = identities;
  checkIssuers(issuers, refuse);
  const grants = rules.map((rule, i) => grantOf(rule, { at: `identities.rules.${i}`, issuers, refuse }));
  checkUse({ issuers, grants, file, refuse });
  return {
    issuers: issuers.flatMap((one, i) => issuerOf(one, { at: `identities.issuers.${i}`, files, refuse }) ?? []),
    certificateDomain: issuers.find(({ x509 }) => x509 === true)?.trust_domain,
    grants,
  };
}

function checkIssuers(issuers: readonly IssuerFile[], refuse: Refuse): void {
  const names = issuers.map(({ name }) => name);
  for (const [i, name] of names.entries()) {
    if (names.indexOf(name) < i) refuse(`identities.issuers.${i}.name: "${name}" is a duplicate`);
  }
  const domains = issuers.map(({ trust_domain: domain }) => domain);
  for (const [i, domain] of domains.entries()) {
    if (domain !== undefined && domains.indexOf(domain) < i) {
      refuse(`identities.issuers.${i}.trust_domain: "${domain}" is a duplicate`);
    }
  }
  const certified = issuers.flatMap(({ x509 }, i) => (x509 === true ? [i] : []));
  for (const i of certified.slice(1)) {
    refuse(
      `identities.issuers.${i}.x509: only one trust domain may have it: client_ca does not say which authority may name which domain`,
    );
  }
}

interface IssuerContext {
  readonly at: string;
  readonly files: FileReader;
  readonly refuse: Refuse;
}

/** Returns undefined for a trust domain that has certificates only. */
function issuerOf(one: IssuerFile, { at, files, refuse }: IssuerContext): TokenIssuer | undefined {
  const { name, issuer, trust_domain: trustDomain, audience, x509 } = one;
  const places = { jwks_file: one.jwks_file, jwks_url: one.jwks_url, ca: one.ca, token_file: one.token_file };
  if (issuer !== undefined && trustDomain === undefined && (!isSafeUrl(issuer) || /[?#]/.test(issuer))) {
    refuse(`${at}.issuer: must be the https URL in the tokens' \`iss\``);
  }
  if (one.users === true) return userIssuerOf(one, { at, files, refuse });
  if (trustDomain === undefined) {
    if (issuer === undefined) refuse(`${at}: needs issuer (a Kubernetes cluster) or trust_domain (SPIFFE)`);
    if (x509 !== undefined) refuse(`${at}.x509: needs trust_domain`);
    if (audience === undefined) refuse(`${at}.audience: is required: the \`aud\` of the tokens`);
    const keys = keySetPlaceOf(places, { at, issuer: issuer ?? "", uses: ["sig"], files, refuse });
    return { kind: "service_account", setting: at, name, issuer: issuer ?? "", audience: audience ?? "", keys };
  }
  if (!isTrustDomain(trustDomain)) refuse(`${at}.trust_domain: must be a trust domain such as example.org`);
  const hasTokens = Object.values(places).some((place) => place !== undefined) || audience !== undefined;
  if (!hasTokens && x509 === true) return undefined;
  if (audience === undefined) refuse(`${at}.audience: is required: the \`aud\` of the JWT-SVIDs`);
  if (places.jwks_file === undefined && places.jwks_url === undefined && !isSafeUrl(issuer ?? "")) {
    refuse(`${at}: needs jwks_file or jwks_url: the trust bundle`);
  }
  const keys = keySetPlaceOf(places, { at, issuer: issuer ?? "", uses: ["sig", "jwt-svid"], files, refuse });
  return { kind: "spiffe", setting: at, name, trustDomain, issuer, audience: audience ?? "", keys };
}

function userIssuerOf(one: IssuerFile, { at, files, refuse }: IssuerContext): TokenIssuer {
  const { name, issuer = "", audience = "", trust_domain: trustDomain, x509 } = one;
  if (issuer === "") refuse(`${at}.issuer: is required: the \`iss\` of the access tokens`);
  if (trustDomain !== undefined || x509 !== undefined) refuse(`${at}: users have no trust_domain and no x509`);
  if (!isSafeUrl(audience) || /[?#]/.test(audience)) {
    refuse(
      `${at}.audience: must be the URL of the MCP endpoint, as clients reach it, such as https://latchkey.example.com/mcp`,
    );
  }
  const places = { jwks_file: one.jwks_file, jwks_url: one.jwks_url, ca: one.ca, token_file: one.token_file };
  const keys = keySetPlaceOf(places, { at, issuer, uses: ["sig"], files, refuse });
  return { kind: "user", setting: at, name, issuer, audience, keys };
}

interface RuleContext {
  readonly at: string;
  readonly issuers: readonly IssuerFile[];
  readonly refuse: Refuse;
}

function grantOf(rule: RuleFile, context: RuleContext): IdentityGrant {
  const { at, refuse } = context;
  const { environment, scopes: names = ["proxy"], limits: given } = rule;
  const scopes = names.flatMap((name) => scopesByName.get(name) ?? []);
  const isControl = scopes.includes(Scope.ADMIN);
  if (isControl !== (environment === undefined) || (isControl && scopes.length > 1)) {
    refuse(`${at}: needs an environment, or only the scope admin and no environment`);
  }
  if (scopes.includes(Scope.EDGE)) {
    refuse(`${at}.scopes: must not contain edge: edges are in edges.service_accounts and edges.certificates`);
  }
  const limits = given && limitsOf(given, `${at}.limits`, refuse);
  const beyond = limits === undefined ? [] : scopes.filter((scope) => !limitableScopes.has(scope)).map(scopeName);
  if (beyond.length > 0) refuse(`${at}.scopes: must not contain ${beyond.join(", ")} for a rule with limits`);
  return { subject: subjectOf(rule, context), environment, scopes, limits };
}

function limitsOf(given: FileLimits, at: string, refuse: Refuse): AccessLimits {
  const { connections = [], methods = [], paths = [], hosts = [], tools = [] } = given;
  const named = connections.map(({ integration, id = "" }) => create(LimitedConnectionSchema, { integration, id }));
  const limits = create(AccessLimitsSchema, { connections: named, methods, paths, hosts, tools });
  if (Object.keys(given).length === 0) refuse(`${at}: must limit something`);
  for (const { path, message } of mistakesInLimits(limits)) refuse(`${[at, ...path].join(".")}: ${message}`);
  return limits;
}

/** Never matches: it stands for the subject of a rule that was refused. */
const invalidSubject: GrantSubject = { kind: "certificate", name: "" };

function subjectOf(rule: RuleFile, { at, issuers, refuse }: RuleContext): GrantSubject {
  const { service_account: account, spiffe, certificate, unix, user } = rule;
  const given = Object.entries({ service_account: account, spiffe, certificate, unix, user });
  if (given.filter(([, value]) => value !== undefined).length !== 1) {
    refuse(`${at}: needs exactly one of service_account, spiffe, user, certificate, unix`);
    return invalidSubject;
  }
  if (rule.issuer !== undefined && account === undefined && user === undefined) {
    refuse(`${at}.issuer: has a use for service_account and user only`);
  }
  if (user !== undefined) return userSubject(user, rule, { at, issuers, refuse });
  if (account !== undefined) return accountSubject(rule, { at, issuers, refuse });
  if (spiffe !== undefined) return spiffeSubject(spiffe, { at, issuers, refuse });
  if (certificate !== undefined) {
    if (!/^(?:URI|DNS|CN):\S/.test(certificate)) refuse(`${at}.certificate: must begin with URI:, DNS: or CN:`);
    return { kind: "certificate", name: certificate };
  }
  if (unix === undefined) return invalidSubject;
  if ("uid" in unix) {
    if (unix.uid === 65_534) refuse(`${at}.unix.uid: must not be 65534, which stands for unknown users`);
    return { kind: "uid", uid: unix.uid };
  }
  if (!unix.socket.startsWith("/")) refuse(`${at}.unix.socket: must be an absolute path`);
  return { kind: "socket", path: unix.socket };
}

function accountSubject(rule: RuleFile, { at, issuers, refuse }: RuleContext): GrantSubject {
  const account = readAccountPattern(rule.service_account ?? "");
  if (account === undefined) {
    refuse(`${at}.service_account: must be <namespace>/<service account>, or <namespace>/* for all of them`);
    return invalidSubject;
  }
  const names = issuers.flatMap(({ name, trust_domain: domain, users }) =>
    domain === undefined && users !== true ? [name] : [],
  );
  const [only, second] = names;
  const named = rule.issuer ?? (second === undefined ? only : undefined);
  if (only === undefined) refuse(`${at}.service_account: needs an issuer without trust_domain in identities.issuers`);
  else if (named === undefined) refuse(`${at}.issuer: is required, since there are several: ${names.join(", ")}`);
  else if (!names.includes(named)) refuse(`${at}.issuer: must be one of ${names.join(", ")}`);
  return { kind: "service_account", issuer: named ?? "", account };
}

function userSubject(name: string, { issuer = "" }: RuleFile, { at, issuers, refuse }: RuleContext): GrantSubject {
  const known = issuers.some((one) => one.name === issuer && one.users === true);
  if (!known) refuse(`${at}.issuer: must be the name of an issuer with users in identities.issuers`);
  return { kind: "user", issuer, name };
}

function spiffeSubject(text: string, { at, issuers, refuse }: RuleContext): GrantSubject {
  const pattern = readSpiffePattern(text);
  if (pattern === undefined) {
    refuse(`${at}.spiffe: must be a SPIFFE ID such as spiffe://example.org/ns/shop/sa/checkout, * or ** in its path`);
    return invalidSubject;
  }
  if (!issuers.some(({ trust_domain: domain }) => domain === pattern.trustDomain)) {
    refuse(`${at}.spiffe: needs an issuer with the trust_domain ${pattern.trustDomain} in identities.issuers`);
  }
  return { kind: "spiffe", pattern };
}

interface UseCheck {
  readonly issuers: readonly IssuerFile[];
  readonly grants: readonly IdentityGrant[];
  readonly file: ConfigFile;
  readonly refuse: Refuse;
}

/** Refuses rules that can never fit: certificates without an authority, and repeated subjects. */
function checkUse({ issuers, grants, file, refuse }: UseCheck): void {
  const hasAuthority = [file.tls?.data?.client_ca, file.tls?.control?.client_ca].some((ca) => ca !== undefined);
  for (const [i, { subject }] of grants.entries()) {
    if (subject.kind === "certificate" && subject.name !== "" && !hasAuthority) {
      refuse(`identities.rules.${i}.certificate: needs client_ca in tls.data or tls.control, which verifies it`);
    }
  }
  for (const [i, { x509 }] of issuers.entries()) {
    if (x509 === true && !hasAuthority) {
      refuse(`identities.issuers.${i}.x509: needs client_ca in tls.data or tls.control, which verifies the SVIDs`);
    }
  }
  const subjects = grants.map(({ subject }) => (subject === invalidSubject ? undefined : JSON.stringify(subject)));
  for (const [i, subject] of subjects.entries()) {
    if (subject === undefined || subjects.indexOf(subject) === i) continue;
    refuse(`identities.rules.${i}: is never used: identities.rules.${subjects.indexOf(subject)} names the same caller`);
  }
}
