import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { deviceAuthorizationRequest, pushedAuthorizationRequest, revocationRequest } from "oauth4webapi";
import { kindOf } from "../../auth/oauth2/token-failures.ts";
import { lifetimeMs } from "../../auth/oauth2/token-lifetime.ts";
import type { SmallAnswer } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import type { AuthorizationServers } from "./authorization-server.ts";
import type { Parties, Party } from "./oauth2-client.ts";
import { oauth2RulesOf, scopesFor } from "./oauth2-tokens.ts";
import { parseAnswer } from "./token-answer.ts";
import type { DeviceCode, PushedRequest, PushRequest, RevocationRequest, ScopedRequest } from "./token-endpoint.ts";
import { refused, unusable } from "./token-failure.ts";
import { type ParameterForm, plainForm, tokenForm } from "./written-parameters.ts";

/** Requests of a client to an authorization server, other than for tokens. */
export interface OAuth2Requests {
  push(request: PushRequest): Promise<PushedRequest>;
  beginDevice(request: ScopedRequest): Promise<DeviceCode>;
  revoke(request: RevocationRequest): Promise<boolean>;
}

interface RequestsOptions {
  readonly parties: Parties;
  readonly servers: AuthorizationServers;
  readonly world: World;
}

const deadlineMs = 60_000;
/** RFC 8628, section 3.2. */
const defaultIntervalMs = 5_000;
/** Device code lifetime for a provider that does not send one, although the RFC requires it. */
const defaultDeviceLifetimeMs = 300_000;
/** RFC 9126, section 2.2: between 5 and 600 seconds; 5 for a provider that does not send a lifetime. */
const defaultPushedLifetimeMs = 5_000;

export function createOAuth2Requests({ parties, servers, world }: RequestsOptions): OAuth2Requests {
  /** Returns the response of one request; throws if the provider rejects it. */
  async function answerTo({ what, party, form, signal, secrets, send }: TokenRequestOptions): Promise<TokenResponse> {
    let received: TokenResponse | undefined;
    await send(
      party.transport({
        form,
        signal,
        deadlineMs,
        onResponse(answer, sentAtMs) {
          received = { answer, sentAtMs, object: objectIn(answer) };
        },
      }),
    );
    if (received === undefined) throw new Error("the OAuth library sent no request");
    const { answer, object } = received;
    const { status } = answer;
    const code = codeIn(object["error"]);
    if (status >= 200 && status < 300 && code === undefined) return received;
    const kind = kindOf({ status, code, grant: what, rules: party.rules });
    throw refused({ what, answer, kind, code, secrets: [...party.secrets, ...secrets], nowMs: world.now() });
  }

  return {
    async push(request) {
      const rules = oauth2RulesOf(request);
      const party = await parties.partyOf(request, rules, "pushed");
      const what = "the pushed authorization endpoint";
      const { server, client, authentication } = party;
      const { object, sentAtMs } = await answerTo({
        what,
        party,
        form: plainForm,
        signal: request.signal,
        secrets: [],
        send: (way) => pushedAuthorizationRequest(server, client, authentication, { ...request.parameters }, way),
      });
      const { request_uri: requestUri } = object;
      if (!isText(requestUri)) throw unusable("no_request_uri", `the response of ${what} has no request_uri`);
      return { requestUri, expiresAtMs: sentAtMs + (lifetimeMs(object["expires_in"], "s") ?? defaultPushedLifetimeMs) };
    },
    async beginDevice(request) {
      const rules = oauth2RulesOf(request);
      const party = await parties.partyOf(request, rules, "device");
      const what = "the device authorization endpoint";
      const { server, client, authentication } = party;
      const scopes = scopesFor(request, rules, request.scopes);
      const scope = scopes.join(rules.scopeSeparator === "" ? " " : rules.scopeSeparator);
      const { object, sentAtMs } = await answerTo({
        what,
        party,
        form: plainForm,
        signal: request.signal,
        secrets: [],
        send: (way) => deviceAuthorizationRequest(server, client, authentication, scope === "" ? {} : { scope }, way),
      });
      const { device_code: deviceCode, user_code: userCode } = object;
      // `verification_url` is the name that some providers used before the RFC.
      const verificationUri = object["verification_uri"] ?? object["verification_url"];
      if (!isText(deviceCode) || !isText(userCode) || !isLink(verificationUri)) {
        throw unusable("no_device_code", `the response of ${what} has no device_code, user_code or verification_uri`);
      }
      const complete = object["verification_uri_complete"];
      return {
        deviceCode,
        userCode,
        verificationUri,
        verificationUriComplete: isLink(complete) ? complete : undefined,
        expiresAtMs: sentAtMs + (lifetimeMs(object["expires_in"], "s") ?? defaultDeviceLifetimeMs),
        // Replace 0, which would mean polling without a pause.
        intervalMs: lifetimeMs(object["interval"], "s") || defaultIntervalMs,
      };
    },
    async revoke(request) {
      const rules = oauth2RulesOf(request);
      if ((await servers.endpointOf(request, rules, "revocation")) === undefined) return false;
      const party = await parties.partyOf(request, rules, "revocation");
      const { server, client, authentication } = party;
      const { token, kind } = request;
      await answerTo({
        what: "the revocation endpoint",
        party,
        form: { ...tokenForm(rules, false), method: "" },
        signal: request.signal,
        secrets: [token],
        send: (way) =>
          revocationRequest(server, client, authentication, token, {
            ...way,
            additionalParameters: { token_type_hint: kind },
          }),
      }).catch((error: unknown) => {
        if (!isGoneAlready(error)) throw error;
      });
      return true;
    },
  };
}

interface TokenRequestOptions {
  readonly what: string;
  readonly party: Party;
  readonly form: ParameterForm;
  readonly signal: AbortSignal | undefined;
  readonly secrets: readonly string[];
  readonly send: (way: ReturnType<Party["transport"]>) => Promise<Response>;
}

interface TokenResponse {
  readonly answer: SmallAnswer;
  readonly sentAtMs: number;
  readonly object: JsonObject;
}

/** RFC 7009, section 2.2: an invalid token counts as revoked; some providers return an error anyway. */
const isGoneAlready = (error: unknown): boolean =>
  error instanceof Error && "code" in error && (error.code === "invalid_token" || error.code === "invalid_grant");

function objectIn({ header, body }: SmallAnswer): JsonObject {
  const parsed = parseAnswer({ contentType: header("content-type"), body });
  return parsed.is === "object" ? parsed.answer : {};
}

const codeIn = (value: JsonValue | undefined) => (typeof value === "string" && value !== "" ? value : undefined);

/** Checks text that is shown to people and sent back unchanged. */
const isText = (value: JsonValue | undefined): value is string =>
  typeof value === "string" && /^[\x20-\x7e]{1,4096}$/.test(value);

const isLink = (value: JsonValue | undefined): value is string =>
  isText(value) && URL.canParse(value) && /^https?:$/.test(new URL(value).protocol);
