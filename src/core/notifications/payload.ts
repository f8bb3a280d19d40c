import { StoredNotification_PayloadForm as PayloadForm } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { NotificationRules } from "../../gen/latchkey/v1/provider_pb.ts";
import type { ReceivedNotification } from "./notification.ts";
import { waysOf } from "./proof.ts";
import { type NotificationReading, readingOf, textOf, utf8Of } from "./reading.ts";

interface ForwardedHeader {
  readonly name: string;
  readonly value: string;
}

/**
 * Headers of a notification that are passed on to the application: the provider's own, without signatures and tokens.
 */
export function passedHeaders(
  rules: NotificationRules | undefined,
  reading: Pick<NotificationReading, "headers">,
): readonly ForwardedHeader[] {
  if (rules === undefined || rules.headerPrefix === "") return [];
  const { prefix, held } = passingOf(rules);
  const passed: ForwardedHeader[] = [];
  for (const [name, value] of reading.headers) {
    if (name.startsWith(prefix) && !held.includes(name)) passed.push({ name, value });
  }
  return passed;
}

/** Cached rules with names in lower case, like header names here. */
const passings = new WeakMap<NotificationRules, { readonly prefix: string; readonly held: readonly string[] }>();

function passingOf(rules: NotificationRules) {
  const known = passings.get(rules);
  if (known !== undefined) return known;
  const signed = waysOf(rules).flatMap(({ header, furtherHeaders, handshakeHeader }) => [
    header,
    ...furtherHeaders,
    handshakeHeader,
  ]);
  const held = [...signed, ...rules.secretHeaders].map((name) => name.toLowerCase());
  const passing = { prefix: rules.headerPrefix.toLowerCase(), held };
  passings.set(rules, passing);
  return passing;
}

/** Chooses how the payload of a notification is built. Decided on receipt, so that the payload never changes. */
export function payloadFormOf(rules: NotificationRules | undefined, reading: NotificationReading): PayloadForm {
  const { channel = "", values = {} } = rules ?? {};
  // If headers name the channel, they carry the event; a body beside them (`{"kind": "drive#changes"}`) says less.
  const isInHeaders = (values[channel]?.header ?? "") !== "";
  if (isInHeaders || reading.received.body.length === 0) return PayloadForm.UNSPECIFIED;
  if (reading.form() !== undefined) return PayloadForm.FORM;
  return reading.json() === undefined ? PayloadForm.TEXT : PayloadForm.JSON;
}

/** Builds the payload as JSON; the same input always gives the same text. */
export function payloadOf(form: PayloadForm, headers: readonly ForwardedHeader[], body: Uint8Array): string {
  switch (form) {
    case PayloadForm.JSON:
      // Passes the body unchanged, even with duplicate keys: it was checked to be JSON and UTF-8.
      return utf8Of(body) ?? JSON.stringify(textOf(body));
    case PayloadForm.FORM:
      return JSON.stringify(formObject(body));
    case PayloadForm.TEXT:
      return JSON.stringify(textOf(body));
    default:
      // Built from pairs, an object has `__proto__` as an ordinary field.
      return JSON.stringify(Object.fromEntries(headers.map(({ name, value }) => [name, value])));
  }
}

const formHeaders: ReceivedNotification["headers"] = [["content-type", "application/x-www-form-urlencoded"]];

function formObject(body: Uint8Array): Readonly<Record<string, string | readonly string[]>> {
  const fields = new Map<string, string[]>();
  for (const [name, value] of readingOf({ headers: formHeaders, query: "", body }).form() ?? []) {
    const before = fields.get(name);
    if (before === undefined) fields.set(name, [value]);
    else before.push(value);
  }
  return Object.fromEntries(
    [...fields].map(([name, values]) => [name, values.length === 1 ? (values[0] ?? "") : values]),
  );
}
