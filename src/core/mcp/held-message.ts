import { memberOf, membersOf, withMembers } from "./message-members.ts";
import { MessageMistake } from "./message-scanner.ts";

/** A call that is repeated after its client has read an `input_required` answer (MCP 2026-07-28). */
export interface RepeatedMessage {
  /** ID of the approval that the client names; empty: none. */
  readonly approval: string;
  /** The message as it is sent on: without what Latchkey has added to it. */
  readonly content: Uint8Array;
  /** What is compared: all but the parts that a client changes when it repeats a call. */
  readonly compared: Uint8Array;
  /** The state that the client must send back with the next repetition. */
  stateFor(approval: string): string;
}

const prefix = "latchkey-approval:";

/** Members of `params` by which clients answer a server's questions. */
const roundTrip = ["requestState", "inputResponses"] as const;

/** Reads a message of JSON. Throws `MessageMistake` if two parsers could read its state in two ways. */
export function repeatedMessage(content: Uint8Array): RepeatedMessage {
  const text = Buffer.from(content).toString("latin1");
  const params = memberOf(text, "params") ?? "";
  const names = membersOf(params).map(({ key }) => key);
  for (const name of roundTrip) {
    if (names.indexOf(name) !== names.lastIndexOf(name)) {
      throw new MessageMistake(`the message names \`${name}\` twice`);
    }
  }
  const state = ownState(memberOf(params, "requestState"));
  const original: RoundTrip =
    state === undefined
      ? { requestState: memberOf(params, "requestState"), inputResponses: memberOf(params, "inputResponses") }
      : state.original;
  const sent = state === undefined ? text : withMembers(text, { params: withMembers(params, { ...original }) });
  return {
    approval: state?.approval ?? "",
    content: state === undefined ? content : Buffer.from(sent, "latin1"),
    compared: Buffer.from(comparedText(text, params, original), "latin1"),
    stateFor: (approval) => `${prefix}${approval}${encodedOriginal(original)}`,
  };
}

/** Raw values of what the client answers to the server itself. */
interface RoundTrip {
  readonly requestState: string | undefined;
  readonly inputResponses: string | undefined;
}

interface OwnState {
  readonly approval: string;
  readonly original: RoundTrip;
}

function encodedOriginal({ requestState, inputResponses }: RoundTrip): string {
  if (requestState === undefined && inputResponses === undefined) return "";
  const json = JSON.stringify([requestState ?? null, inputResponses ?? null]);
  return `:${Buffer.from(json, "latin1").toString("base64url")}`;
}

const nothing: RoundTrip = { requestState: undefined, inputResponses: undefined };

/** Reads a state that Latchkey has given; undefined for one of the server. What it holds is compared again. */
function ownState(value: string | undefined): OwnState | undefined {
  const text = value?.startsWith('"') === true ? (JSON.parse(value) as string) : "";
  if (!text.startsWith(prefix)) return undefined;
  const [approval = "", encoded] = text.slice(prefix.length).split(":", 2);
  if (encoded === undefined) return { approval, original: nothing };
  const found = originalIn(encoded);
  if (found === undefined) throw new MessageMistake("`requestState` must be sent back as it was received");
  return { approval, original: found };
}

function originalIn(encoded: string): RoundTrip | undefined {
  let parts: unknown;
  try {
    parts = JSON.parse(Buffer.from(encoded, "base64url").toString("latin1"));
    if (!Array.isArray(parts)) return undefined;
    for (const part of parts) if (typeof part === "string") JSON.parse(part);
  } catch {
    // The client has changed it.
    return undefined;
  }
  const [state, responses] = parts as readonly unknown[];
  return {
    requestState: typeof state === "string" ? state : undefined,
    inputResponses: typeof responses === "string" ? responses : undefined,
  };
}

/** Blanks between members mean nothing; values are compared as they are written. */
function comparedText(message: string, params: string, { requestState, inputResponses }: RoundTrip): string {
  const meta = memberOf(params, "_meta");
  const kept = withMembers(params, {
    requestState,
    inputResponses: undefined,
    ...(meta !== undefined && { _meta: withMembers(meta, { progressToken: undefined }) }),
  });
  const withoutState = withMembers(kept, { requestState: undefined });
  const rest = withMembers(message, { id: undefined, ...(params !== "" && { params: withoutState }) });
  return [rest, requestState ?? "", inputResponses ?? ""].join("\n");
}
