import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { RequestFailed, type SendSmallRequest } from "../../../base/small-requests.ts";
import type { World } from "../../../base/world.ts";
import { signatureFields } from "../../../core/notifications/webhook-signature.ts";
import type { Attempt } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { type DeliveryVerdict, verdictOf } from "./verdict.ts";

interface Delivery {
  readonly id: string;
  readonly url: string;
  readonly body: Uint8Array;
  readonly secrets: readonly string[];
  readonly number: number;
  readonly send: SendSmallRequest;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly world: World;
}

/** Bytes of a response body that are stored, to help explain a failure. */
const keptOfAnswer = 1_024;
/** Limits the bytes of a response body that are read. */
const maxAnswerBytes = 64 * 1024;

/** Makes one delivery attempt. Returns undefined if Latchkey aborted the attempt because it is stopping. */
export async function attemptDelivery(
  delivery: Delivery,
): Promise<{ readonly attempt: Attempt; readonly verdict: DeliveryVerdict } | undefined> {
  const { id, url, body, secrets, number, send, timeoutMs, signal, world } = delivery;
  const startedMs = world.now();
  const since = performance.now();
  const headers = {
    "content-type": "application/json",
    ...signatureFields({ id, timestampMs: startedMs, body, secrets }),
  };
  let status = 0;
  let error = "";
  let retryAfter: string | undefined;
  let answer: Uint8Array = new Uint8Array();
  try {
    const request = { url, method: "POST", headers, body, mayRepeat: true } as const;
    const given = await send(request, { signal, deadlineMs: timeoutMs, maxBytes: maxAnswerBytes });
    ({ status } = given);
    retryAfter = given.header("retry-after");
    answer = given.body.subarray(0, keptOfAnswer);
  } catch (failure) {
    if (!(failure instanceof RequestFailed)) throw failure;
    if (signal.aborted && failure.status === undefined) return undefined;
    // The status arrived and decides the outcome; the missing rest of the response changes nothing.
    status = failure.status ?? 0;
    error = failure.reason;
  }
  const attempt: Attempt = {
    $typeName: "latchkey.v1.Attempt",
    number,
    startedAt: timestampFromMs(startedMs),
    duration: durationFromMs(Math.max(0, Math.round(performance.now() - since))),
    status,
    error,
    answer,
  };
  return { attempt, verdict: verdictOf({ status, error, retryAfter }, world.now()) };
}
