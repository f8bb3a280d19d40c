import type { JsonValue } from "@bufbuild/protobuf";
import type { SmallAnswer } from "../../../base/small-requests.ts";
import { retryAfterMs } from "../../../core/outgoing/retry-after.ts";
import type { ChannelRules, WatchableResource } from "../../../gen/latchkey/v1/provider_pb.ts";
import { valueAt } from "../../../providers/dotted-path.ts";
import type { ListedChannel } from "../rules/lost.ts";
import type { WatchAnswer } from "../rules/making.ts";
import { isEndless } from "../rules/rules.ts";
import { lastMs } from "../rules/times.ts";
import type { StopVerdict } from "./protocol.ts";

/** The meaning of a response to a watch request. */
export type WatchVerdict =
  | ({ readonly kind: "made" } & WatchAnswer)
  | { readonly kind: "id_taken"; readonly code: string }
  | NoChannel;

/** `unheard`: the provider may have created the channel before the failure. */
interface NoChannel {
  readonly kind: "refused" | "put_off" | "unheard";
  readonly code: string;
  readonly retryAfterMs?: number | undefined;
}

interface ChannelAnswerInput {
  readonly answer: SmallAnswer;
  readonly body: JsonValue | undefined;
  readonly nowMs: number;
}

interface WatchDescription {
  readonly watch: WatchableResource;
  readonly rules: Pick<ChannelRules, "idTakenReason" | "goneStatuses">;
}

export function watchVerdict(
  { watch: resource, rules }: WatchDescription,
  { answer, body, nowMs }: ChannelAnswerInput,
): WatchVerdict {
  if (isGood(answer)) {
    const at = (path: string): string => textAt(path, body);
    const providerId = at(resource.id);
    // Without its ID, the channel could not be renewed or stopped.
    if (resource.id !== "" && providerId === "") return { kind: "unheard", code: "no_id" };
    return {
      kind: "made",
      resourceId: at(resource.resourceId),
      resourceUri: at(resource.resourceUri),
      expiresAtMs: expiryIn(at(resource.expiration), resource.expirationFormat, nowMs),
      providerId,
      key: at(resource.secret),
      position: at(resource.position),
      isEndless: isEndless(resource),
      awaitsChallenge: resource.confirmedByChallenge,
    };
  }
  return failedVerdict(rules, { answer, body, nowMs });
}

function failedVerdict(
  { idTakenReason }: Pick<ChannelRules, "idTakenReason">,
  { answer, body, nowMs }: ChannelAnswerInput,
): Exclude<WatchVerdict, { kind: "made" }> {
  const { status } = answer;
  const reason = reasonIn(body);
  const code = codeOf(status, reason);
  if (status === 400 && reason !== "" && reason === idTakenReason) return { kind: "id_taken", code };
  const wait = retryAfterMs(answer.header("retry-after"), "", nowMs);
  if (isForNow(status, reason)) return { kind: "put_off", code, retryAfterMs: wait };
  // A 5xx failure may have happened before or after the channel was created.
  return { kind: status >= 500 ? "unheard" : "refused", code, retryAfterMs: wait };
}

/** The meaning of a response to a renewal in place. */
export type RenewalVerdict =
  | { readonly kind: "renewed"; readonly expiresAtMs: number | undefined }
  /** The provider does not know the channel any more. */
  | { readonly kind: "gone"; readonly code: string }
  | NoChannel;

export function renewalVerdict(
  { watch: resource, rules }: WatchDescription,
  { answer, body, nowMs }: ChannelAnswerInput,
): RenewalVerdict {
  if (isGood(answer)) {
    const expiresAtMs = expiryIn(textAt(resource.expiration, body), resource.expirationFormat, nowMs);
    return { kind: "renewed", expiresAtMs };
  }
  const { status } = answer;
  const gone = rules.goneStatuses.length > 0 ? rules.goneStatuses : [404, 410];
  if (gone.includes(status)) return { kind: "gone", code: codeOf(status, reasonIn(body)) };
  const verdict = failedVerdict(rules, { answer, body, nowMs });
  // A renewal may be sent twice: a lost response is no more than a failure.
  return verdict.kind === "refused" ? verdict : { ...verdict, kind: "put_off" };
}

/** The channels in a response to a list request. */
export function listedIn(
  { listItems, listId, listAddress, listExpiration, expirationFormat }: WatchableResource,
  { body, nowMs }: Pick<ChannelAnswerInput, "body" | "nowMs">,
): readonly ListedChannel[] {
  const list = body === undefined ? undefined : listItems === "" ? body : valueAt(listItems, body);
  if (!Array.isArray(list)) return [];
  return list.slice(0, mostListed).flatMap((item): readonly ListedChannel[] => {
    const providerId = textAt(listId, item);
    const expiresAtMs = expiryIn(textAt(listExpiration, item), expirationFormat, nowMs);
    return providerId === "" ? [] : [{ providerId, address: textAt(listAddress, item), expiresAtMs }];
  });
}

const mostListed = 10_000;

export function textAt(path: string, body: JsonValue | undefined): string {
  const value = path === "" || body === undefined ? undefined : valueAt(path, body);
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** A time in the past, or an invalid one, is ignored. */
function expiryIn(text: string, format: string, nowMs: number): number | undefined {
  if (text === "" || format === "none") return undefined;
  const read: Readonly<Record<string, () => number>> = {
    s: () => Number(text) * 1_000,
    iso: () => Date.parse(text),
    duration: () => nowMs + Number(text) * 1_000,
  };
  const atMs = Math.trunc((read[format] ?? (() => Number(text)))());
  return Number.isSafeInteger(atMs) && atMs > nowMs && atMs <= lastMs ? atMs : undefined;
}

export const isGood = ({ status }: SmallAnswer): boolean => status >= 200 && status < 300;

export function stopVerdict({ answer, body, nowMs }: ChannelAnswerInput): StopVerdict {
  const { status } = answer;
  // A channel that no longer exists is as good as stopped.
  if (isGood(answer) || status === 404 || status === 410) return { kind: "stopped" };
  const reason = reasonIn(body);
  return {
    kind: "not_stopped",
    code: codeOf(status, reason),
    retryAfterMs: retryAfterMs(answer.header("retry-after"), "", nowMs),
    // The channel was made by another client or for another user, so retries are useless.
    isHopeless: status === 403 && !isForNow(status, reason),
  };
}

/** 401 concerns the credentials, which are refreshed separately; some providers send 403 for an exceeded rate. */
const isForNow = (status: number, reason: string): boolean =>
  [401, 408, 425, 429].includes(status) || (status === 403 && /rate|quota/i.test(reason));

/** The status and, if it is a word, the provider's reason. */
const codeOf = (status: number, reason: string): string =>
  /^[A-Za-z][A-Za-z0-9_.]{0,63}$/.test(reason) ? `status_${status}_${reason}` : `status_${status}`;

function reasonIn(body: JsonValue | undefined): string {
  if (body === undefined) return "";
  const found = ["error.errors.0.reason", "error.status", "error.code", "error"].map((path) => valueAt(path, body));
  return found.find((one) => typeof one === "string") ?? "";
}
