import { hash } from "node:crypto";
import { Fault } from "../../../base/fault.ts";
import { RequestFailed, type SmallAnswer } from "../../../base/small-requests.ts";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { RequestTemplate } from "../../../gen/latchkey/v1/provider_pb.ts";
import { jsonOf } from "../../credentials/provider-requests.ts";
import type { ChannelValues } from "../../tokens/request-template.ts";
import { authorizationNeeded } from "../channel-requests.ts";
import type { ListedChannel } from "../rules/lost.ts";
import { requestedExpirationMs } from "../rules/rules.ts";
import { channelOf, idOf } from "../rules/slot.ts";
import {
  isGood,
  listedIn,
  type RenewalVerdict,
  renewalVerdict,
  stopVerdict,
  textAt,
  type WatchVerdict,
  watchVerdict,
} from "./channel-answers.ts";
import type { ChannelStop, ChannelWatch, SendChannelRequest, StopVerdict } from "./protocol.ts";

/** The requests of all protocols. None stores anything. */
export interface ProtocolRequests {
  /** Creates a channel; asks for the position to begin from first, if the provider has positions. */
  watch(request: ChannelWatch, channel: StoredChannel, token: string): Promise<WatchVerdict | WatchNotSent>;
  /** Renews these channels, of one connection and kind, with one request. */
  renew(request: ChannelWatch, channels: readonly StoredChannel[]): Promise<RenewalVerdict | WatchNotSent>;
  reauthorize(request: ChannelWatch, channel: StoredChannel): Promise<RenewalVerdict | WatchNotSent>;
  /** Rejects like the request if it has no response; undefined: the provider did not list its channels. */
  list(request: Pick<ChannelWatch, "found" | "rule">): Promise<readonly ListedChannel[] | undefined>;
  /** Rejects like the request if it has no response. */
  stop(channel: ChannelStop): Promise<StopVerdict>;
}

export interface WatchNotSent {
  readonly kind: "unsent";
  readonly code: string;
  readonly fault: Fault;
}

interface ProtocolRequestsOptions {
  readonly send: SendChannelRequest;
  readonly now: () => number;
}

/** Together less than the time for which a record says `creating`. */
const positionWithinMs = 10_000;
const watchWithinMs = 30_000;
const stopWithinMs = 15_000;

export function createProtocolRequests({ send, now }: ProtocolRequestsOptions): ProtocolRequests {
  function valuesOf({ rule, address }: ChannelWatch, channel: StoredChannel): ChannelValues {
    const { resourceId, providerId } = channelOf(channel);
    const nowMs = now();
    const endMs = requestedExpirationMs(rule, channel.askedLifeMs, nowMs);
    const end = endMs === undefined ? {} : endValues(endMs, nowMs);
    const { resource } = rule;
    return {
      ...namesOf(idOf(channel), { resourceId, providerId }),
      ...end,
      address,
      resource,
      token: tokenIn(channel),
    };
  }

  /** Sends a request that may be sent twice. */
  async function sendRenewal(
    { found, rule }: ChannelWatch,
    template: RequestTemplate,
    values: ChannelValues,
  ): Promise<RenewalVerdict | WatchNotSent> {
    try {
      const answer = await send(found, { template, values, deadlineMs: watchWithinMs });
      const verdict = renewalVerdict(rule, { answer, body: jsonOf(answer), nowMs: now() });
      return verdict.kind === "renewed" ? { ...verdict, ...askedEnd(verdict, values) } : verdict;
    } catch (error) {
      if (error instanceof RequestFailed) return { kind: "put_off", code: error.reason };
      return notSent(error);
    }
  }

  async function positionFor({ found, rule }: ChannelWatch, values: ChannelValues): Promise<Position> {
    const { positionRequest: template, position: path } = rule.watch;
    if (template === undefined) return { position: undefined };
    const answer = await send(found, { template, values, deadlineMs: positionWithinMs });
    const position = isGood(answer) ? textAt(path, jsonOf(answer)) : "";
    return position === "" ? { refused: answer } : { position };
  }

  return {
    async watch(request, channel, token) {
      const { found, rule } = request;
      if (rule.watch.watch === undefined) throw new Error("the watchable resource has no watch request");
      const values = { ...valuesOf(request, channel), token };
      let isAsked = false;
      try {
        const { position, refused } = await positionFor(request, values);
        if (refused !== undefined) return positionRefused(request, refused, now());
        isAsked = true;
        const template = rule.watch.watch;
        const answer = await send(found, { template, values: { ...values, position }, deadlineMs: watchWithinMs });
        const verdict = watchVerdict(rule, { answer, body: jsonOf(answer), nowMs: now() });
        if (verdict.kind !== "made") return verdict;
        return { ...verdict, ...(position !== undefined && { position }), ...askedEnd(verdict, values) };
      } catch (error) {
        if (error instanceof RequestFailed) {
          return { kind: isAsked && error.mayHaveArrived ? "unheard" : "put_off", code: error.reason };
        }
        return notSent(error);
      }
    },
    async renew(request, channels) {
      const [first] = channels;
      const template = request.rule.watch.renew;
      if (template === undefined || first === undefined) throw new Error("the resource has no renewal in place");
      const ids = channels.map((one) => channelOf(one).providerId || idOf(one));
      return sendRenewal(request, template, { ...valuesOf(request, first), ids });
    },
    async reauthorize(request, channel) {
      const template = request.rule.watch.reauthorize;
      if (template === undefined) throw new Error("the resource has no request that reauthorizes");
      return sendRenewal(request, template, valuesOf(request, channel));
    },
    async list({ found, rule }) {
      const template = rule.watch.list;
      if (template === undefined) return undefined;
      const { resource } = rule;
      const answer = await send(found, { template, values: { resource }, deadlineMs: stopWithinMs });
      return isGood(answer) ? listedIn(rule.watch, { body: jsonOf(answer), nowMs: now() }) : undefined;
    },
    async stop({ found, rule, id, resourceId, providerId, address, signal }) {
      const template = rule?.watch.stop ?? found.provider.channel?.stop;
      if (template === undefined) return { kind: "not_stopped", code: "unstoppable", isHopeless: true };
      const names = namesOf(id, { resourceId, providerId });
      const values = { ...names, ids: [providerId || id], address, resource: rule?.resource };
      const answer = await send(found, { template, values, deadlineMs: stopWithinMs, signal });
      return stopVerdict({ answer, body: jsonOf(answer), nowMs: now() });
    },
  };
}

interface Position {
  readonly position?: string | undefined;
  /** The response without a position. */
  readonly refused?: SmallAnswer;
}

/** Nothing was created: whatever the failure, it is not unknown. */
function positionRefused({ rule }: ChannelWatch, answer: SmallAnswer, nowMs: number): WatchVerdict {
  if (isGood(answer)) return { kind: "put_off", code: "no_position" };
  const verdict = watchVerdict(rule, { answer, body: jsonOf(answer), nowMs });
  return verdict.kind === "unheard" ? { ...verdict, kind: "put_off" } : verdict;
}

function notSent(error: unknown): WatchNotSent | { readonly kind: "refused"; readonly code: string } {
  if (!(error instanceof Fault)) throw error;
  const { code } = error;
  return code === authorizationNeeded ? { kind: "unsent", code, fault: error } : { kind: "refused", code };
}

const namesOf = (id: string, { resourceId, providerId }: Pick<ChannelStop, "resourceId" | "providerId">) => ({
  id,
  idNumber: numberOf(id),
  resourceId,
  providerId: providerId || undefined,
});

/** 53 bits of a hash of the ID, for providers whose IDs are numbers. It begins with 1, so that its length is constant. */
const numberOf = (id: string): string =>
  `1${(hash("sha256", id, "buffer").readBigUInt64BE() % 1_000_000_000_000_000n).toString().padStart(15, "0")}`;

/** The key of a channel is the token of its creation, unless the provider chose it. */
const tokenIn = ({ hasOwnKey, key }: StoredChannel): string | undefined => (hasOwnKey && key !== "" ? key : undefined);

/** A provider that names no expiry is taken to have granted the one that it was asked for. */
function askedEnd(
  { expiresAtMs }: { readonly expiresAtMs: number | undefined },
  { expiration }: ChannelValues,
): { readonly expiresAtMs: number | undefined } {
  return { expiresAtMs: expiresAtMs ?? (expiration === undefined ? undefined : Number(expiration)) };
}

const endValues = (endMs: number, nowMs: number): ChannelValues => ({
  expiration: String(endMs),
  expirationSeconds: String(Math.floor(endMs / 1_000)),
  // Some providers take neither fractions nor `Z`.
  expirationIso: new Date(endMs).toISOString().replace(/\.\d{3}Z$/, "+00:00"),
  lifetimeSeconds: String(Math.max(1, Math.floor((endMs - nowMs) / 1_000))),
});
