import type { JsonValue } from "@bufbuild/protobuf";
import type { Mistake } from "../base/fault.ts";
import type { JwtRules, Provider, TokenRules } from "../gen/latchkey/v1/provider_pb.ts";
import { checkExchanges, checkHeaderNames, textsOf } from "./check-exchanges.ts";
import { checkScopeNotes } from "./check-oauth2.ts";
import { checkPlaceholders, type PlaceholderRoot } from "./check-placeholders.ts";
import { mistake } from "./mistake.ts";

/** Checks how a token is created or obtained by an exchange, apart from its URLs. */
export function checkTokenRules(provider: Provider): Mistake[] {
  const { auth } = provider;
  if (auth.case !== "app" && auth.case !== "jwt" && auth.case !== "twoStep" && auth.case !== "signature") return [];
  const rules = auth.value;
  return [
    ...checkRequest(rules),
    ...(rules.jwt === undefined ? [] : checkJwt(rules.jwt)),
    ...checkExchanges(rules.exchanges),
    ...checkScopeNotes(rules.scopeNotes, "auth.scope_notes"),
    ...(auth.case === "app" ? checkInstallation(rules, provider) : onlyForApps(rules)),
  ];
}

function checkRequest({ request, jwt }: TokenRules): Mistake[] {
  if (request === undefined) return [];
  const { params, headers, authorization } = request;
  const usesJwt = authorization === "jwt" || Object.values(params).some((text) => text.includes("${jwt}"));
  const inHeaders: readonly PlaceholderRoot[] = ["credentials", "connectionConfig", "integration", "clientSecret"];
  const inParams: readonly PlaceholderRoot[] = [...inHeaders, "jwt"];
  return [
    ...(usesJwt && jwt === undefined ? [mistake("auth.jwt", "must say how the JWT of the request is created")] : []),
    ...textsOf("auth.request", { params }).flatMap(([at, text]) => checkPlaceholders(text, at, inParams)),
    ...textsOf("auth.request", { headers }).flatMap(([at, text]) => checkPlaceholders(text, at, inHeaders)),
    ...checkHeaderNames(headers, "auth.request.headers"),
  ];
}

const inJwt: readonly PlaceholderRoot[] = ["credentials", "connectionConfig", "integration", "iat", "exp"];

const checkJwt = ({ header, claims }: JwtRules): Mistake[] => [
  ...textsOf("auth.jwt", { header }).flatMap(([at, text]) => checkPlaceholders(text, at, inJwt)),
  ...claimTexts("auth.jwt.claims", claims ?? {}).flatMap(([at, text]) => checkPlaceholders(text, at, inJwt)),
];

function claimTexts(path: string, value: JsonValue): [string, string][] {
  if (typeof value === "string") return [[path, value]];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => claimTexts(`${path}.${name}`, inner as JsonValue));
}

const onlyForApps = ({ installUrl, callbackFields, installationProof }: TokenRules): Mistake[] => [
  ...(installUrl === "" ? [] : [mistake("auth.install_url", "needs app")]),
  ...(Object.keys(callbackFields).length === 0 ? [] : [mistake("auth.callback_fields", "needs app")]),
  ...(installationProof === undefined ? [] : [mistake("auth.installation_proof", "needs app")]),
];

function checkInstallation(rules: TokenRules, provider: Provider): Mistake[] {
  const { installUrl, callbackFields, installationProof: proof, tokenUrl } = rules;
  const names = Object.keys(callbackFields);
  if (installUrl === "") {
    return names.length > 0 || proof !== undefined
      ? [mistake("auth.install_url", "must be the page where the app is installed")]
      : [];
  }
  return [
    ...checkInstallUrl(installUrl, provider),
    ...(tokenUrl === "" ? [mistake("auth.token_url", "is required with install_url")] : []),
    ...(names.includes("installation_id")
      ? []
      : [mistake("auth.callback_fields", "must contain installation_id, which the callback brings")]),
    // A stranger chooses these values, so none may be an app or a key.
    ...names.flatMap((name) =>
      name === "installation_id" ? [] : [mistake(`auth.callback_fields.${name}`, "must be installation_id")],
    ),
    ...names.flatMap((name) =>
      ["", "state", "code", "error"].includes(callbackFields[name] ?? "")
        ? [mistake(`auth.callback_fields.${name}`, "must name a parameter of the callback with the value")]
        : [],
    ),
    ...(proof === undefined
      ? [
          mistake(
            "auth.installation_proof",
            "is required, because end users can change the callback to the installation of another customer",
          ),
        ]
      : [
          ...(proof.tokenUrl === ""
            ? [mistake("auth.installation_proof.token_url", "must name the endpoint for the code")]
            : []),
          ...(proof.listUrl === "" ? [mistake("auth.installation_proof.list_url", "must name the list")] : []),
          ...(proof.value === ""
            ? [mistake("auth.installation_proof.value", "must name the place of the value in an item")]
            : []),
          ...(names.includes(proof.field)
            ? []
            : [mistake("auth.installation_proof.field", "must be a name in callback_fields")]),
        ]),
  ];
}

/** A setting may only be a whole segment of the path: it then leads to no other host. */
function checkInstallUrl(url: string, { integrationSettings }: Provider): Mistake[] {
  const path = "auth.install_url";
  const filled = url.replaceAll(/(?<=\/)\$\{integration\.\w+\}(?=\/|$|\?)/g, "a");
  const wrong = checkPlaceholders(url, path, ["integration"]);
  if (wrong.length > 0) return wrong;
  if (filled.includes("${")) return [mistake(path, "may contain ${integration.NAME} only as a whole path segment")];
  const isShown = integrationSettings.some(({ name, secret }) => secret && url.includes(`\${integration.${name}}`));
  if (isShown) return [mistake(path, "must not contain a secret setting, which the end user would see")];
  const isUrl = URL.canParse(filled) && new URL(filled).protocol === "https:" && new URL(filled).username === "";
  return isUrl ? [] : [mistake(path, "must be an https URL")];
}
