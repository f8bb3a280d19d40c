import type { JsonValue } from "@bufbuild/protobuf";
import type { SmallAnswer } from "../../../base/small-requests.ts";
import { retryAfterMs } from "../../../core/outgoing/retry-after.ts";
import type { ChannelRules, WatchableResource } from "../../../gen/latchkey/v1/provider_pb.ts";
import { valueAt } from "../../../providers/dotted-path.ts";
import type { WatchAnswer } from "../rules/making.ts";
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
  readonly rules: Pick<ChannelRules, "idTakenReason">;
}

export function watchVerdict(
  { watch: resource, rules }: WatchDescription,
  { answer, body, nowMs }: ChannelAnswerInput,
): WatchVerdict {
  const { status } = answer;
  if (status >= 200 && status < 300) {
    const at = (path: string): string => {
      const value = path === "" || body === undefined ? undefined : valueAt(path, body);
      return typeof value === "string" || typeof value === "number" ? String(value) : "";
    };
    const expiresAtMs = Number(at(resource.expiration));
    // A time in the past, or an invalid one, is ignored.
    const isTime = Number.isSafeInteger(expiresAtMs) && expiresAtMs > nowMs && expiresAtMs <= lastMs;
    return {
      kind: "made",
      resourceId: at(resource.resourceId),
      resourceUri: at(resource.resourceUri),
      expiresAtMs: isTime ? expiresAtMs : undefined,
    };
  }
  const reason = reasonIn(body);
  const code = codeOf(status, reason);
  if (status === 400 && reason !== "" && reason === rules.idTakenReason) return { kind: "id_taken", code };
  const wait = retryAfterMs(answer.header("retry-after"), "", nowMs);
  if (isForNow(status, reason)) return { kind: "put_off", code, retryAfterMs: wait };
  // A 5xx failure may have happened before or after the channel was created.
  return { kind: status >= 500 ? "unheard" : "refused", code, retryAfterMs: wait };
}

export function stopVerdict({ answer, body, nowMs }: ChannelAnswerInput): StopVerdict {
  const { status } = answer;
  // A channel that no longer exists is as good as stopped.
  if ((status >= 200 && status < 300) || status === 404 || status === 410) return { kind: "stopped" };
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
