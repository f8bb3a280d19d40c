import { STATUS_CODES } from "node:http";
import { statusLine } from "../http1/response-head.ts";
import type { OwnAnswer } from "./client-connection-owner.ts";

interface AnswerTexts {
  /** Without the lines about the connection. */
  readonly lines: string;
  readonly content: string;
}

/** Writes an answer as latin1. */
export function textsOf({ status, headers, body }: OwnAnswer): AnswerTexts {
  const content = Buffer.from(body).toString("latin1");
  let lines = statusLine(status, STATUS_CODES[status] ?? "");
  for (const [name, value] of Object.entries(headers)) lines += `${name}: ${value}\r\n`;
  return { lines: `${lines}content-length: ${content.length}\r\n`, content };
}
