import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../../base/fault.ts";
import type { Channel, CreateChannelRequest } from "../../../gen/latchkey/v1/channel_pb.ts";
import type { ChannelRules, Provider, WatchableResource } from "../../../gen/latchkey/v1/provider_pb.ts";
import { lastMs } from "./answer.ts";
import { usualMaxLifeMs } from "./times.ts";

/** What is to be watched, by a provider's description. */
export interface WatchRule {
  readonly rules: ChannelRules;
  readonly kind: string;
  readonly watch: WatchableResource;
  readonly resource: string;
  /** The default of the provider's first kind: what a connection's metadata calls its channel. */
  readonly isDefault: boolean;
}

type Names = Pick<CreateChannelRequest, "resourceKind" | "resource">;

const names = /\$\{resource\}/;
/** Longer than any id of a calendar or a file. */
const maxResourceLength = 1_024;
const minLifeMs = 60_000;

const invalid = (field: string, message: string) =>
  new Fault("invalid_body", "the channel is not valid", { mistakes: [{ path: [field], message }] });

/** What is watched when nothing is named; undefined: nothing. */
export function defaultWatched({ channel: rules }: Pick<Provider, "channel">): WatchRule | undefined {
  const [first] = Object.entries(rules?.resources ?? {});
  if (rules === undefined || first === undefined) return undefined;
  const [kind, watch] = first;
  const resource = watch.defaultResource;
  return wantsResource(watch) && resource === "" ? undefined : { rules, kind, watch, resource, isDefault: true };
}

export function watchedBy(provider: Provider, { resourceKind, resource: asked }: Names): WatchRule {
  const rules = provider.channel;
  const kinds = Object.keys(rules?.resources ?? {});
  const kind = resourceKind === "" ? (kinds[0] ?? "") : resourceKind;
  const watch = rules !== undefined && kinds.includes(kind) ? rules.resources[kind] : undefined;
  if (rules === undefined || watch === undefined) {
    const known =
      kinds.length === 0 ? `the provider ${provider.name} knows no channels` : `is one of ${kinds.join(", ")}`;
    throw invalid("resource_kind", known);
  }
  const resource = asked === "" ? watch.defaultResource : asked;
  if (wantsResource(watch) && resource === "") throw invalid("resource", "must say what to watch");
  if (!wantsResource(watch) && asked !== "") throw invalid("resource", `there is one ${kind} alone, which has no name`);
  if (!isResource(resource)) throw invalid("resource", "is not the name of anything");
  const isDefault = kind === kinds[0] && resource === watch.defaultResource;
  return { rules, kind, watch, resource, isDefault };
}

const wantsResource = ({ watch }: WatchableResource): boolean => names.test(`${watch?.path}${watch?.body}`);

function isResource(resource: string): boolean {
  // A step up or aside is no name, and NUL ends a key.
  return resource.length <= maxResourceLength && resource.isWellFormed() && !/^\.{1,2}$|\p{Cc}/u.test(resource);
}

export function requireChannelId(id: string, { maxIdLength }: ChannelRules): void {
  const most = maxIdLength > 0 ? maxIdLength : 64;
  if (id.length <= most && /^[A-Za-z0-9_-]*$/.test(id)) return;
  throw invalid("id", `must be at most ${most} of A-Z a-z 0-9 _ and -`);
}

/** How long it is to be asked to live; 0: nothing is said of it. */
export function askedLifeMs({ expiresAt }: Pick<CreateChannelRequest, "expiresAt">, nowMs: number): number {
  if (expiresAt === undefined) return 0;
  const atMs = timestampMs(expiresAt);
  if (!Number.isSafeInteger(atMs) || atMs > lastMs) throw invalid("expires_at", "is no time that can be said exactly");
  if (atMs < nowMs + minLifeMs) throw invalid("expires_at", "must be at least a minute from now");
  return atMs - nowMs;
}

/** When it is to end, as it is asked for; undefined: as the provider likes. */
export function askedExpirationMs(rules: ChannelRules, lifeMs: number, nowMs: number): number | undefined {
  const most = rules.maxLifetime === undefined ? undefined : durationMs(rules.maxLifetime);
  if (lifeMs > 0) return Math.trunc(nowMs + Math.min(lifeMs, most ?? lifeMs));
  return most === undefined ? undefined : Math.trunc(nowMs + most);
}

/** Until when it may be there if nobody hears that it was made. */
export const mayLiveUntilMs = (rules: ChannelRules, lifeMs: number, nowMs: number): number =>
  askedExpirationMs(rules, lifeMs, nowMs) ?? nowMs + usualMaxLifeMs;

/** What a connection's metadata says once this channel is there. */
export function metadataWith(metadata: JsonObject, rules: ChannelRules, made: ScriptChannel): JsonObject {
  const { channelIdKey, resourceIdKey, resourceUrisKey } = rules;
  const { id, resourceId, resourceUri } = made.channel;
  const after = { ...metadata };
  if (made.isDefault && channelIdKey !== "") after[channelIdKey] = id;
  if (made.isDefault && resourceIdKey !== "" && resourceId !== "") after[resourceIdKey] = resourceId;
  if (resourceUrisKey !== "" && resourceUri !== "") {
    const known = after[resourceUrisKey];
    const uris = Array.isArray(known) ? known : [];
    // What stands there and is no list is the customer's, and is left alone.
    if (known === undefined || known === null || Array.isArray(known)) {
      after[resourceUrisKey] = uris.includes(resourceUri) ? uris : [...uris, resourceUri];
    }
  }
  return after;
}

interface ScriptChannel {
  readonly channel: Channel;
  readonly isDefault: boolean;
}

/** And once it was stopped, with none in its place. Late notifications of it still find the connection by their URI. */
export function metadataWithout(metadata: JsonObject, rules: ChannelRules, id: string): JsonObject {
  const { channelIdKey, resourceIdKey } = rules;
  if (channelIdKey === "" || metadata[channelIdKey] !== id) return metadata;
  const { [channelIdKey]: _id, [resourceIdKey]: _resource, ...rest } = metadata;
  return rest;
}

/** A channel that a customer's script made, as the metadata tells. */
export function toldChannel(metadata: JsonObject, rules: ChannelRules): { id: string; resourceId: string } | undefined {
  const [id, resourceId] = [metadata[rules.channelIdKey], metadata[rules.resourceIdKey]];
  return isTold(id) && isTold(resourceId) ? { id, resourceId } : undefined;
}

/** Providers give ids of a line of text; what is none may be anything. */
const isTold = (value: JsonValue | undefined): value is string =>
  typeof value === "string" && value !== "" && value.length <= 256 && value.isWellFormed() && !/\p{Cc}/u.test(value);
