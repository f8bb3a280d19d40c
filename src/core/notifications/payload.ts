import { StoredNotification_PayloadForm as PayloadForm } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { NotificationRules } from "../../gen/latchkey/v1/provider_pb.ts";
import type { ReceivedNotification } from "./notification.ts";
import { type NotificationReading, readingOf, textOf, utf8Of } from "./reading.ts";

interface PassedHeader {
  readonly name: string;
  readonly value: string;
}

/** The headers of a notification that go on to the application: the provider's own, less what proves it. */
export function passedHeaders(
  rules: NotificationRules | undefined,
  reading: Pick<NotificationReading, "headers">,
): readonly PassedHeader[] {
  if (rules === undefined || rules.headerPrefix === "") return [];
  const { prefix, held } = passingOf(rules);
  const passed: PassedHeader[] = [];
  for (const [name, value] of reading.headers) {
    if (name.startsWith(prefix) && !held.includes(name)) passed.push({ name, value });
  }
  return passed;
}

/** Of rules, in lower case, as names of headers are here. */
const passings = new WeakMap<NotificationRules, { readonly prefix: string; readonly held: readonly string[] }>();

function passingOf(rules: NotificationRules) {
  const known = passings.get(rules);
  if (known !== undefined) return known;
  const held = [rules.signature?.header ?? "", ...rules.secretHeaders].map((name) => name.toLowerCase());
  const passing = { prefix: rules.headerPrefix.toLowerCase(), held };
  passings.set(rules, passing);
  return passing;
}

/** How a notification's payload is made: settled when it is received, so that it stays the same. */
export function payloadFormOf(rules: NotificationRules | undefined, reading: NotificationReading): PayloadForm {
  const { channel = "", values = {} } = rules ?? {};
  // What comes over a channel that the headers name is told by them: a body beside (`{"kind": "drive#changes"}`) says less.
  const isInHeaders = (values[channel]?.header ?? "") !== "";
  if (isInHeaders || reading.received.body.length === 0) return PayloadForm.UNSPECIFIED;
  if (reading.form() !== undefined) return PayloadForm.FORM;
  return reading.json() === undefined ? PayloadForm.TEXT : PayloadForm.JSON;
}

/** A notification as JSON, the same text each time. */
export function payloadOf(form: PayloadForm, headers: readonly PassedHeader[], body: Uint8Array): string {
  switch (form) {
    case PayloadForm.JSON:
      // As it came, twice the same key and all: it was seen to be JSON, and a text of it is UTF-8.
      return utf8Of(body) ?? JSON.stringify(textOf(body));
    case PayloadForm.FORM:
      return JSON.stringify(formObject(body));
    case PayloadForm.TEXT:
      return JSON.stringify(textOf(body));
    default:
      // Made of pairs, an object has `__proto__` as a field like any other.
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

interface Envelope {
  /** The provider's name. */
  readonly from: string;
  readonly providerConfigKey: string;
  readonly type: string;
  /** JSON. */
  readonly payload: string;
  /** Undefined: no connection matched. */
  readonly connectionId?: string | undefined;
}

/** What is sent to the application, byte for byte. */
export function envelopeOf({ from, providerConfigKey, type, payload, connectionId }: Envelope): Uint8Array {
  const head = JSON.stringify({ from, providerConfigKey, type }).slice(0, -1);
  const tail = connectionId === undefined ? "" : `,"connectionId":${JSON.stringify(connectionId)}`;
  return Buffer.from(`${head},"payload":${payload}${tail}}`);
}
