import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { randomId } from "../../base/ids.ts";
import { isObject } from "../dialect/json-fields.ts";
import type { ClientAbilities } from "../scripts/script-client.ts";
import { type ClientLogLevel, readLogLevel } from "./log-level.ts";
import { invalidParams, legacyVersions, modernVersion, RpcFailure, rpcCodes, supportedVersions } from "./protocol.ts";

/** What a client says of itself. None of it is verified. */
export interface ClientProfile {
  readonly era: "modern" | "legacy";
  /** The client can ask its user to open a URL. */
  readonly opensUrls: boolean;
  /** What scripts may ask it. */
  readonly abilities: ClientAbilities;
  /** Name and version, for logs; empty: unknown. */
  readonly name: string;
  /** The random part of the session's ID; empty: none, as in the modern era. */
  readonly session: string;
  /** The least important log messages that a request of the modern era asks for; undefined: none. */
  readonly logLevel: ClientLogLevel | undefined;
}

/** Headers that say which client sends a request. */
export interface ProfileHeaders {
  readonly version: string | undefined;
  readonly sessionId: string | undefined;
}

const metaKey = (name: string): string => `io.modelcontextprotocol/${name}`;
export const serverInfoKey = metaKey("serverInfo");
/** Names the subscription that a message belongs to. */
export const subscriptionKey = metaKey("subscriptionId");

const metaOf = ({ _meta: meta }: JsonObject): JsonObject => (isObject(meta) ? meta : {});

/** Returns the protocol version in a request's metadata. */
export const versionIn = (params: JsonObject): JsonValue | undefined => metaOf(params)[metaKey("protocolVersion")];

const maxToken = 256;

/**
 * Returns the token by which a client asks how far its request is; undefined: it does not ask. Throws for a token that
 * is too long: each message repeats it.
 */
export function progressToken(params: JsonObject): string | number | undefined {
  const { progressToken: token } = metaOf(params);
  if (typeof token === "string" && token.length > maxToken) {
    throw invalidParams(`\`params._meta.progressToken\` must have at most ${maxToken} characters`);
  }
  return typeof token === "string" || typeof token === "number" ? token : undefined;
}

/** Whether a request is of the modern era: by its metadata, or by a header that requires them. */
export const isModernRequest = (params: JsonObject, { version }: ProfileHeaders): boolean =>
  versionIn(params) !== undefined || version === modernVersion;

/** Returns the profile of a modern request. Throws `RpcFailure` for metadata that are missing. */
export function modernProfile(params: JsonObject): ClientProfile {
  const meta = metaOf(params);
  const version = versionIn(params);
  const capabilities = meta[metaKey("clientCapabilities")];
  if (typeof version !== "string") throw missingMeta("protocolVersion", "the version of MCP");
  if (!isObject(capabilities)) throw missingMeta("clientCapabilities", "an object");
  requireSupported(version, [modernVersion]);
  const asked = meta[metaKey("logLevel")];
  return {
    era: "modern",
    opensUrls: opensUrls(capabilities),
    abilities: abilitiesIn(capabilities),
    name: clientName(meta[metaKey("clientInfo")]),
    session: "",
    logLevel: asked === undefined ? undefined : readLogLevel(asked, metaField("logLevel"), 400),
  };
}

const missingMeta = (field: string, what: string) => invalidParams(`\`${metaField(field)}\` must be ${what}`, 400);

const metaField = (name: string): string => `params._meta["${metaKey(name)}"]`;

/** Returns the profile of a legacy request, from the ID of its session. Throws for an unknown version. */
export function legacyProfile({ version, sessionId }: ProfileHeaders): ClientProfile {
  if (version !== undefined) requireSupported(version, legacyVersions);
  return { era: "legacy", ...readSessionId(sessionId ?? ""), logLevel: undefined };
}

function requireSupported(requested: string, versions: readonly string[]): void {
  if (versions.includes(requested)) return;
  throw new RpcFailure(rpcCodes.unsupportedVersion, "unsupported protocol version", {
    status: 400,
    data: { supported: [...supportedVersions], requested },
  });
}

/** Returns the version to speak with a client that asks for one in `initialize`. */
export const negotiatedVersion = (asked: JsonValue | undefined): string =>
  legacyVersions.find((version) => version === asked) ?? legacyVersions[0];

/**
 * Returns an ID for the session of a legacy client. It says what the client told in `initialize`, so that no replica
 * has to remember it.
 */
export function newSessionId({ capabilities, clientInfo }: JsonObject): string {
  const declared = isObject(capabilities) ? capabilities : {};
  const { forms, sampling, roots } = abilitiesIn(declared);
  const flags = `${opensUrls(declared) ? "u" : ""}${forms ? "f" : ""}${sampling ? "s" : ""}${roots ? "r" : ""}`;
  return [randomId(), flags === "" ? "-" : flags, Buffer.from(clientName(clientInfo)).toString("base64url")].join(".");
}

const maxName = 100;

function readSessionId(text: string): Pick<ClientProfile, "opensUrls" | "abilities" | "name" | "session"> {
  const [, session = "", flags = "", encoded = ""] = /^([\w-]{22})\.(-|u?f?s?r?)\.([\w-]{0,200})$/.exec(text) ?? [];
  const has = (flag: string) => flags.includes(flag);
  return {
    opensUrls: has("u"),
    abilities: { forms: has("f"), sampling: has("s"), roots: has("r") },
    name: plain(Buffer.from(encoded, "base64url").toString()),
    session,
  };
}

/** An empty `elicitation` means: forms only. */
function opensUrls({ elicitation }: JsonObject): boolean {
  return isObject(elicitation) && isObject(elicitation["url"]);
}

/** Clients of 2025-11-25 are asked on the stream of their call. This one takes none. */
export const unableToAnswer = (client: ClientProfile): ClientProfile => ({
  ...client,
  abilities: { forms: false, sampling: false, roots: false },
});

function abilitiesIn({ elicitation, sampling, roots }: JsonObject): ClientAbilities {
  const forms = isObject(elicitation) && (isObject(elicitation["form"]) || elicitation["url"] === undefined);
  return { forms, sampling: isObject(sampling), roots: isObject(roots) };
}

function clientName(info: JsonValue | undefined): string {
  if (!isObject(info)) return "";
  const { name, version } = info;
  const parts = [name, version].filter((part) => typeof part === "string" && part !== "");
  return plain(parts.join("/"));
}

const plain = (text: string): string => text.replaceAll(/[^\x21-\x7e]+/g, "_").slice(0, maxName);
