import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { ReceivedNotification } from "../../core/notifications/notification.ts";
import { isSame } from "../../core/notifications/schemes/constant-time.ts";
import { signatureFields } from "../../core/notifications/webhook-signature.ts";
import type { Approval } from "../../gen/latchkey/v1/approval_pb.ts";
import type { SigningSecrets } from "../setup/signing-secrets.ts";
import { namesNothing } from "../stored/name-tables.ts";
import type { ApprovalRef, Approvals } from "./approvals.ts";

/** Takes answers that the application signs as Latchkey signs its deliveries (Standard Webhooks 1.0.0). */
export interface SignedAnswers {
  answer(ref: ApprovalRef, received: ReceivedNotification): Promise<Approval>;
}

interface SignedAnswersOptions {
  readonly approvals: Pick<Approvals, "grant" | "deny">;
  readonly signingSecrets: Pick<SigningSecrets, "of">;
  readonly world: World;
}

const toleranceMs = 300_000;

export function createSignedAnswers({ approvals, signingSecrets, world }: SignedAnswersOptions): SignedAnswers {
  async function secretsOf(environment: string): Promise<readonly string[]> {
    if (namesNothing(environment)) return [];
    try {
      return await signingSecrets.of(environment);
    } catch (error) {
      // Senders without a signature learn nothing about environments.
      if (error instanceof Fault && error.code === "unknown_environment") return [];
      throw error;
    }
  }

  async function requireSigned({ environment, id }: ApprovalRef, received: ReceivedNotification): Promise<void> {
    const { body } = received;
    const header = (name: string) => received.headers.find(([one]) => one === name)?.[1] ?? "";
    const timestamp = header("webhook-timestamp");
    const timestampMs = /^\d{1,12}$/.test(timestamp) ? Number(timestamp) * 1_000 : Number.NaN;
    const sent = header("webhook-signature").split(" ", 20);
    // Deliveries have other IDs, so none of them can be sent back as an answer.
    if (header("webhook-id") !== id) throw unproven("webhook-id must be the ID of the approval");
    if (!(Math.abs(world.now() - timestampMs) <= toleranceMs)) {
      throw unproven("webhook-timestamp must be the time now, in seconds since 1970");
    }
    const isSigned = (await secretsOf(environment)).some((secret) => {
      const fields = signatureFields({ id, timestampMs, body, secrets: [secret] });
      return sent.some((one) => isSame(one, fields["webhook-signature"] ?? ""));
    });
    if (!isSigned) throw unproven("webhook-signature must be made with a signing secret of the environment");
  }

  return {
    async answer(ref, received) {
      await requireSigned(ref, received);
      const { decision, digest, decidedBy, reason, rememberSeconds } = answerIn(received.body);
      const decider = { name: `webhook:${decidedBy}`, keyId: decidedBy };
      if (decision === "deny") return approvals.deny(ref, { reason }, decider);
      return approvals.grant(ref, { digest, reason, rememberMs: rememberSeconds * 1_000 }, decider);
    },
  };
}

const unproven = (why: string) => new Fault("unproven_webhook", `the answer is not signed: ${why}`);

interface SignedAnswer {
  readonly decision: "approve" | "deny";
  readonly digest: string;
  readonly decidedBy: string;
  readonly reason: string;
  readonly rememberSeconds: number;
}

const fields = new Set(["decision", "digest", "decided_by", "reason", "remember"]);

/** Reads an answer. Fields that are not known are refused: nothing else that is signed can be read as an answer. */
function answerIn(body: Uint8Array): SignedAnswer {
  const given = objectIn(body);
  const unknown = Object.keys(given).find((name) => !fields.has(name));
  if (unknown !== undefined) throw invalid("body", `must have only the fields ${[...fields].join(", ")}`);
  const { decision, digest, decided_by: decidedBy, reason = "", remember = 0 } = given;
  if (decision !== "approve" && decision !== "deny") throw invalid("decision", "must be approve or deny");
  if (typeof decidedBy !== "string" || decidedBy === "" || decidedBy.length > 100) {
    throw invalid("decided_by", "must name the person who answers, with 1 to 100 characters");
  }
  if (typeof reason !== "string" || reason.length > 500)
    throw invalid("reason", "must be text of at most 500 characters");
  if (typeof remember !== "number" || !Number.isInteger(remember) || remember < 0) {
    throw invalid("remember", "must be a whole number of seconds");
  }
  if (digest !== undefined && typeof digest !== "string") throw invalid("digest", "must be text");
  if (decision === "approve" && (digest === undefined || digest === "")) {
    throw invalid("digest", "must be the digest of the approval that the person has seen");
  }
  return { decision, digest: digest ?? "", decidedBy, reason, rememberSeconds: remember };
}

function objectIn(body: Uint8Array): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(body).toString("utf8"));
  } catch (cause) {
    throw new Fault("invalid_json", "the body must be JSON in UTF-8", { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid("body", "must be a JSON object");
  return value as Record<string, unknown>;
}

const invalid = (field: string, message: string) =>
  new Fault("invalid_body", `${field} ${message}`, { mistakes: [{ path: [field], message }] });
