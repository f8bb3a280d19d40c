import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../../base/fault.ts";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Channel, CreateChannelRequest } from "../../../gen/latchkey/v1/channel_pb.ts";
import type {
  ChannelRules,
  Provider,
  SignatureRules,
  WatchableResource,
} from "../../../gen/latchkey/v1/provider_pb.ts";
import type { WatchedResource } from "./slot.ts";
import { lastMs, usualMaxLifeMs } from "./times.ts";

/** The resource to watch, from a provider's description. */
export interface WatchRule {
  readonly rules: ChannelRules;
  readonly kind: string;
  readonly watch: WatchableResource;
  readonly resource: string;
  /** The default of the provider's first kind: a connection's metadata names this channel. */
  readonly isDefault: boolean;
}

type Names = Pick<CreateChannelRequest, "resourceKind" | "resource">;

const names = /\$\{resource\}/;
/** Longer than any ID of a calendar or a file. */
const maxResourceLength = 1_024;
const minLifeMs = 60_000;

const invalid = (field: string, message: string) =>
  new Fault("invalid_body", "the channel is not valid", { mistakes: [{ path: [field], message }] });

/** The resource watched if the caller names none; undefined: no default exists. */
export function defaultWatchRule({ channel: rules }: Pick<Provider, "channel">): WatchRule | undefined {
  const [first] = Object.entries(rules?.resources ?? {});
  if (rules === undefined || first === undefined) return undefined;
  const [kind, watch] = first;
  const resource = watch.defaultResource;
  return wantsResource(watch) && resource === "" ? undefined : { rules, kind, watch, resource, isDefault: true };
}

export function watchRuleFor(provider: Provider, { resourceKind, resource: named }: Names): WatchRule {
  const rules = provider.channel;
  const kinds = Object.keys(rules?.resources ?? {});
  const kind = resourceKind === "" ? (kinds[0] ?? "") : resourceKind;
  const watch = rules !== undefined && kinds.includes(kind) ? rules.resources[kind] : undefined;
  if (rules === undefined || watch === undefined) {
    const known =
      kinds.length === 0
        ? `is not supported: the provider ${provider.name} has no channels`
        : `must be one of ${kinds.join(", ")}`;
    throw invalid("resource_kind", known);
  }
  const resource = named === "" ? watch.defaultResource : named;
  if (wantsResource(watch) && resource === "") throw invalid("resource", "must name the resource to watch");
  if (!wantsResource(watch) && named !== "") throw invalid("resource", `must be empty for ${kind}`);
  if (!isResource(resource)) {
    throw invalid("resource", `must be an id of at most ${maxResourceLength} characters, without control characters`);
  }
  const isDefault = kind === kinds[0] && resource === watch.defaultResource;
  return { rules, kind, watch, resource, isDefault };
}

const wantsResource = ({ watch }: WatchableResource): boolean => names.test(`${watch?.path}${watch?.body}`);

/** How channels of a rule are created, as the record of a channel keeps it. */
export function creationOf(
  { watch, rules }: Pick<WatchRule, "rules" | "watch">,
  signature: Pick<SignatureRules, "keyOwner" | "handshakeHeader"> | undefined,
): ChannelCreation {
  const stop = watch.stop ?? rules.stop;
  const hasOwnKey = signature?.keyOwner === "channel";
  return {
    stopsById: stop !== undefined && !`${stop.path}${stop.body}`.includes("${resourceId}"),
    hasOwnKey,
    isKeyOurs: hasOwnKey && watch.secret === "" && signature.handshakeHeader === "",
  };
}

export interface ChannelCreation {
  /** It can be stopped without the provider's ID of the resource. */
  readonly stopsById: boolean;
  readonly hasOwnKey: boolean;
  /** The key is the token of the creation. */
  readonly isKeyOurs: boolean;
}

/** The resource as its owner's: the channels of some providers are the integration's. */
export const ownedResource = (watched: WatchedResource, { channel }: Pick<Provider, "channel">): WatchedResource =>
  channel?.owner === "integration" ? { ...watched, ref: { ...watched.ref, id: "" } } : watched;

/** Whether the channel of a rule has no end. */
export const isEndless = ({ expirationFormat }: WatchableResource): boolean => expirationFormat === "none";

function isResource(resource: string): boolean {
  // A path step such as `..` is no name, and NUL ends a key.
  return resource.length <= maxResourceLength && resource.isWellFormed() && !/^\.{1,2}$|\p{Cc}/u.test(resource);
}

export function requireChannelId(id: string, { maxIdLength }: ChannelRules): void {
  const most = maxIdLength > 0 ? maxIdLength : 64;
  if (id.length <= most && /^[A-Za-z0-9_-]*$/.test(id)) return;
  throw invalid("id", `must be at most ${most} of A-Z a-z 0-9 _ and -`);
}

/** The requested lifetime; 0: not specified. */
export function requestedLifeMs({ expiresAt }: Pick<CreateChannelRequest, "expiresAt">, nowMs: number): number {
  if (expiresAt === undefined) return 0;
  const atMs = timestampMs(expiresAt);
  if (!Number.isSafeInteger(atMs) || atMs > lastMs) throw invalid("expires_at", "must be a valid time");
  if (atMs < nowMs + minLifeMs) throw invalid("expires_at", "must be at least a minute from now");
  return atMs - nowMs;
}

/** The requested expiry; undefined: the provider decides. */
export function requestedExpirationMs(
  { rules, watch }: Pick<WatchRule, "rules" | "watch">,
  lifeMs: number,
  nowMs: number,
): number | undefined {
  const { maxLifetime = rules.maxLifetime } = watch;
  const most = maxLifetime === undefined ? undefined : durationMs(maxLifetime);
  if (lifeMs > 0) return Math.trunc(nowMs + Math.min(lifeMs, most ?? lifeMs));
  return most === undefined ? undefined : Math.trunc(nowMs + most);
}

/** When the channel expires at the latest, if the response to its creation is lost. */
export const mayLiveUntilMs = (rule: Pick<WatchRule, "rules" | "watch">, lifeMs: number, nowMs: number): number =>
  requestedExpirationMs(rule, lifeMs, nowMs) ?? nowMs + usualMaxLifeMs;

/** The connection's metadata after this channel was created. */
export function metadataWith(metadata: JsonObject, rules: ChannelRules, made: ScriptChannel): JsonObject {
  const { channelIdKey, resourceIdKey, resourceUrisKey } = rules;
  const { id, resourceId, resourceUri } = made.channel;
  const after = { ...metadata };
  if (made.isDefault && channelIdKey !== "") after[channelIdKey] = id;
  if (made.isDefault && resourceIdKey !== "" && resourceId !== "") after[resourceIdKey] = resourceId;
  if (resourceUrisKey !== "" && resourceUri !== "") {
    const known = after[resourceUrisKey];
    const uris = Array.isArray(known) ? known : [];
    // A value that is not a list belongs to the customer and is left alone.
    if (known === undefined || known === null || Array.isArray(known)) {
      after[resourceUrisKey] = uris.includes(resourceUri) ? uris : [...uris, resourceUri];
    }
  }
  return after;
}

/** The metadata with the position that the first channel of the default resource begins from. */
export function metadataWithPosition(
  metadata: JsonObject,
  { resources }: ChannelRules,
  { channel }: Pick<StoredChannel, "channel">,
): JsonObject {
  const { positionKey = "", defaultResource = "" } = resources[channel?.resourceKind ?? ""] ?? {};
  const position = channel?.position ?? "";
  const isDefault = channel?.resource === defaultResource;
  return !isDefault || positionKey === "" || position === "" ? metadata : { ...metadata, [positionKey]: position };
}

interface ScriptChannel {
  readonly channel: Channel;
  readonly isDefault: boolean;
}

/** The metadata after the channel was stopped without a replacement. Late notifications still match by their URI. */
export function metadataWithout(metadata: JsonObject, rules: ChannelRules, id: string): JsonObject {
  const { channelIdKey, resourceIdKey } = rules;
  if (channelIdKey === "" || metadata[channelIdKey] !== id) return metadata;
  const { [channelIdKey]: _id, [resourceIdKey]: _resource, ...rest } = metadata;
  return rest;
}

/** A channel that a customer's script made, as named by the metadata. */
export function metadataChannel(
  metadata: JsonObject,
  rules: ChannelRules,
): { id: string; resourceId: string } | undefined {
  const [id, resourceId] = [metadata[rules.channelIdKey], metadata[rules.resourceIdKey]];
  return isTold(id) && isTold(resourceId) ? { id, resourceId } : undefined;
}

/** Providers' IDs are one line of text; other values may be anything. */
const isTold = (value: JsonValue | undefined): value is string =>
  typeof value === "string" && value !== "" && value.length <= 256 && value.isWellFormed() && !/\p{Cc}/u.test(value);
