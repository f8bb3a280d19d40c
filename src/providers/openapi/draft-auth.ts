import type { OAuthFlow, SecurityScheme } from "./openapi-document.ts";

/** A part of a draft, and what its author has to look up. */
export interface DraftPart {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly questions: readonly string[];
}

function fromAuthorizationCode({ type, flows }: SecurityScheme): DraftPart | undefined {
  const flow = flows["authorizationCode"];
  if (type !== "oauth2" || flow === undefined) return undefined;
  return {
    fields: { oauth2: { authorization_url: flow.authorizationUrl, ...tokenFields(flow), ...scopeFields(flow) } },
    questions: [
      "Does the token endpoint take the client by HTTP Basic (the default) or in the body (`token_endpoint_auth_method: client_secret_post`)?",
      "Does the provider support PKCE? Else `no_pkce: true`.",
      "What does a use do to a refresh token (`refresh_tokens.use`), and how long does one live?",
    ],
  };
}

function fromOpenId({ type, openIdConnectUrl }: SecurityScheme): DraftPart | undefined {
  if (type !== "openIdConnect") return undefined;
  const issuer = openIdConnectUrl.replace(/\/\.well-known\/.*$/, "");
  const questions = ["Which scopes are needed, and what does each reveal?"];
  return { fields: { oauth2: { metadata_url: openIdConnectUrl, issuer, default_scopes: ["openid"] } }, questions };
}

function fromClientCredentials({ type, flows }: SecurityScheme): DraftPart | undefined {
  const flow = flows["clientCredentials"];
  if (type !== "oauth2" || flow === undefined) return undefined;
  return { fields: { oauth2_client: { ...tokenFields(flow), ...scopeFields(flow) } }, questions: [] };
}

const fromBearer = ({ type, scheme }: SecurityScheme): DraftPart | undefined =>
  type === "http" && scheme === "bearer"
    ? {
        fields: { api_key: { header: "authorization", prefix: "Bearer " } },
        questions: ["Is the bearer token a long-lived key?"],
      }
    : undefined;

function fromKey({ type, in: place, name }: SecurityScheme): DraftPart | undefined {
  if (type !== "apiKey" || (place !== "header" && place !== "query")) return undefined;
  const fields = { api_key: place === "header" ? { header: name.toLowerCase() } : { query: name } };
  const isAuthorization = place === "header" && name.toLowerCase() === "authorization";
  return { fields, questions: isAuthorization ? ["Does a word come before the key (`prefix`)?"] : [] };
}

const fromBasic = ({ type, scheme }: SecurityScheme): DraftPart | undefined =>
  type === "http" && scheme === "basic" ? { fields: { basic: {} }, questions: [] } : undefined;

/** Best first: what acts for an end user, before what acts for the customer itself. */
const makers = [fromAuthorizationCode, fromOpenId, fromClientCredentials, fromBearer, fromKey, fromBasic];

/** Drafts how the API authenticates, by the best of its security schemes. */
export function draftAuth(schemes: readonly SecurityScheme[]): DraftPart {
  for (const make of makers) {
    for (const scheme of schemes) {
      const part = make(scheme);
      if (part !== undefined) return part;
    }
  }
  const questions = ["How does the API authenticate? The document names no scheme that Latchkey knows."];
  return { fields: { api_key: {} }, questions };
}

const tokenFields = ({ tokenUrl, refreshUrl }: OAuthFlow) => ({
  token_url: tokenUrl,
  ...(refreshUrl !== "" && refreshUrl !== tokenUrl && { refresh_url: refreshUrl }),
});

/** The scopes with their descriptions. The author chooses the default ones. */
function scopeFields({ scopes }: OAuthFlow) {
  const notes = Object.entries(scopes).map(([scope, meaning]) => ({ scope, meaning: meaning || scope }));
  return notes.length === 0 ? {} : { default_scopes: [notes[0]?.scope], scope_notes: notes };
}
