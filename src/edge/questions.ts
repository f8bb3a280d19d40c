import { create } from "@bufbuild/protobuf";
import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import {
  type RouteSubject,
  WantedCertificateSchema,
  WantedConnectionSchema,
  WantedKeySchema,
  WantedPassSchema,
  WantedRequestsSchema,
  WantedRoutesSchema,
} from "../gen/latchkey/v1/edge_pb.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ToBroker } from "./follow-stream.ts";

/** Questions to a broker that callers wait for. */
export interface Questions<A> {
  /** Asks; callers with the same question share it. */
  ask(question: Question): Promise<A>;
  /** Ends a question. Late answers are ignored. */
  answer(requestId: bigint, answer: A): void;
  /** A broker is there: it is asked what is still open. */
  resend(): void;
  /** There is no broker: callers wait a little for the next one. */
  shorten(): void;
  close(): void;
}

export type Question =
  | { readonly kind: "connection"; readonly ref: ConnectionRef; readonly token: string; readonly refused: Uint8Array }
  | { readonly kind: "key"; readonly digest: Uint8Array }
  | { readonly kind: "requests"; readonly digest: Uint8Array }
  | { readonly kind: "routes"; readonly subject: RouteSubject }
  | { readonly kind: "certificate"; readonly origin: string; readonly publicKey: Uint8Array }
  | {
      readonly kind: "pass";
      readonly ref: ConnectionRef;
      readonly path: string;
      readonly isBackground: boolean;
      readonly patienceMs: number;
    };

interface QuestionsOptions {
  readonly link: () => Pick<BrokerLink, "send" | "awaySinceMs">;
  /** The broker answers questions of addresses and certificates. */
  readonly servesRoutes: () => boolean;
  readonly world: World;
}

interface WaitingQuestion<A> {
  readonly message: ToBroker;
  readonly kind: Question["kind"];
  readonly askedAt: number;
  timer: NodeJS.Timeout;
  readonly resolve: (answer: A) => void;
  readonly reject: (fault: Fault) => void;
}

/** A broker may refresh a token first. */
const answerMs = 60_000;
/** Brokers restart within this time; later, callers are told at once. */
const awayMs = 3_000;
/** Limits the callers that wait for brokers. */
const maxOpen = 20_000;

export function createQuestions<A>({ link, servesRoutes, world }: QuestionsOptions): Questions<A> {
  const { metrics } = world;
  /** An older broker would end the stream. */
  const isServed = (kind: Question["kind"]) => (kind !== "routes" && kind !== "certificate") || servesRoutes();
  const open = new Map<bigint, WaitingQuestion<A>>();
  const shared = new Map<string, Promise<A>>();
  let lastId = 0n;

  function begin(question: Question): Promise<A> {
    lastId += 1n;
    const id = lastId;
    const { kind } = question;
    return new Promise<A>((resolve, reject) => {
      if (open.size >= maxOpen) {
        reject(Fault.withoutStack("overloaded", "too many requests wait for brokers", { retryAfterSeconds: 1 }));
        return;
      }
      const awaySince = link().awaySinceMs();
      if (awaySince !== undefined && world.now() - awaySince > awayMs) {
        reject(brokersUnavailable());
        return;
      }
      if (awaySince === undefined && !isServed(kind)) {
        reject(brokerTooOld());
        return;
      }
      const timer = setTimeout(() => giveUp(id), awaySince === undefined ? answerMs : awayMs);
      const message = messageOf(id, question);
      open.set(id, { message, kind, timer, resolve, reject, askedAt: performance.now() });
      link().send(message);
    });
  }

  function restartTimers(ms: number): void {
    for (const [id, question] of open) {
      clearTimeout(question.timer);
      question.timer = setTimeout(() => giveUp(id), ms);
    }
  }

  /** Without a broker for so long, or without an answer. */
  function giveUp(id: bigint): void {
    const question = open.get(id);
    if (question === undefined) return;
    close(id, question, "lost");
    question.reject(brokersUnavailable());
  }

  function close(id: bigint, { kind, timer, askedAt }: WaitingQuestion<A>, outcome: string): void {
    open.delete(id);
    clearTimeout(timer);
    metrics.edgeQuestions.inc({ kind, outcome });
    metrics.edgeQuestionSeconds.observe({ kind }, (performance.now() - askedAt) / 1_000);
  }

  return {
    ask(question) {
      const name = nameOf(question);
      if (name === undefined) return begin(question);
      const known = shared.get(name);
      if (known !== undefined) return known;
      const asked = begin(question).finally(() => shared.delete(name));
      shared.set(name, asked);
      return asked;
    },
    answer(requestId, answer) {
      const question = open.get(requestId);
      if (question === undefined) return;
      close(requestId, question, "answered");
      question.resolve(answer);
    },
    shorten: () => restartTimers(awayMs),
    resend() {
      restartTimers(answerMs);
      for (const [id, question] of open) {
        if (isServed(question.kind)) {
          link().send(question.message);
          continue;
        }
        close(id, question, "lost");
        question.reject(brokerTooOld());
      }
    },
    close() {
      for (const id of [...open.keys()]) giveUp(id);
    },
  };
}

export const brokersUnavailable = (): Fault =>
  Fault.withoutStack("brokers_unavailable", "no broker can be reached, and this edge does not have what it needs", {
    retryAfterSeconds: 1,
  });

const brokerTooOld = (): Fault =>
  Fault.withoutStack("not_implemented", "the broker does not know this request of an edge: update the brokers");

/** Undefined: each caller asks for itself. */
function nameOf(question: Question): string | undefined {
  switch (question.kind) {
    case "pass":
      return undefined;
    case "requests":
    case "key":
      return `${question.kind} ${Buffer.from(question.digest).toString("base64")}`;
    case "routes": {
      const { subject } = question.subject;
      return ["routes", subject.case, subject.value].join("\0");
    }
    case "certificate":
      return `certificate ${question.origin}`;
    case "connection": {
      const { ref, token, refused } = question;
      return ["connection", ref.integration, ref.id, token, Buffer.from(refused).toString("base64")].join("\0");
    }
  }
}

function messageOf(requestId: bigint, question: Question): ToBroker {
  switch (question.kind) {
    case "connection": {
      const { ref, token, refused: refusedVersion } = question;
      return {
        case: "wantConnection",
        value: create(WantedConnectionSchema, { requestId, ref, token, refusedVersion }),
      };
    }
    case "key":
      return { case: "wantKey", value: create(WantedKeySchema, { requestId, digest: question.digest }) };
    case "requests":
      return { case: "wantRequests", value: create(WantedRequestsSchema, { requestId, digest: question.digest }) };
    case "routes":
      return { case: "wantRoutes", value: create(WantedRoutesSchema, { requestId, subject: question.subject }) };
    case "certificate": {
      const { origin, publicKey } = question;
      return { case: "wantCertificate", value: create(WantedCertificateSchema, { requestId, origin, publicKey }) };
    }
    case "pass": {
      const { ref, path, isBackground, patienceMs } = question;
      const patience = { seconds: BigInt(Math.floor(patienceMs / 1_000)), nanos: (patienceMs % 1_000) * 1_000_000 };
      return { case: "wantPass", value: create(WantedPassSchema, { requestId, ref, path, isBackground, patience }) };
    }
  }
}
