import { STATUS_CODES } from "node:http";
import { statusLine } from "../http1/response-head.ts";
import type { OwnAnswer } from "./client-connection-owner.ts";

interface AnswerTexts {
  /** Without the lines about the connection. */
  readonly lines: string;
  readonly content: string;
}

/** The last answer: webhooks get the same one again and again. */
let last: { readonly own: OwnAnswer; readonly texts: AnswerTexts } | undefined;

/** Writes an answer as latin1. */
export function textsOf(own: OwnAnswer): AnswerTexts {
  if (last?.own !== own) last = { own, texts: written(own) };
  return last.texts;
}

function written({ status, headers, body }: OwnAnswer): AnswerTexts {
  const content = Buffer.from(body).toString("latin1");
  let lines = statusLine(status, STATUS_CODES[status] ?? "");
  for (const [name, value] of Object.entries(headers)) lines += `${name}: ${value}\r\n`;
  return { lines: `${lines}content-length: ${content.length}\r\n`, content };
}
