import { checkWebhookUrl } from "../core/connection-rules.ts";
import { type DeclaredSetup, defaultEnvironment } from "../core/declared.ts";
import { signingSecretMistake } from "../core/notifications/webhook-signature.ts";
import type { Refuse } from "./values.ts";

interface WrittenSetting<T> {
  /** Name of the setting in messages. */
  readonly name: string;
  readonly value: T;
  readonly refuse: Refuse;
}

/** Checks a forward URL. It belongs to the operator: any host is allowed, and `http`. */
export function forwardUrlOf({ name, value, refuse }: WrittenSetting<string | undefined>): string | undefined {
  for (const { message } of checkWebhookUrl(value ?? "", [])) refuse(`${name} ${message}`);
  return value;
}

/** Checks a secret that signs forwards. */
export function forwardSecretOf({ name, value, refuse }: WrittenSetting<string | undefined>): string | undefined {
  const mistake = value === undefined ? undefined : signingSecretMistake(value);
  if (mistake !== undefined) refuse(`${name} ${mistake}`);
  return value;
}

interface DoubleDeclaration {
  readonly declared: DeclaredSetup;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly refuse: Refuse;
}

/** Refuses a setting of the default environment that both a variable and the file set: neither can take precedence. */
export function refuseForwardTwice({
  declared: { environments, signingSecrets },
  env,
  refuse,
}: DoubleDeclaration): void {
  const dev = environments.find(({ name }) => name === defaultEnvironment);
  const isPinned = signingSecrets.some(({ environment }) => environment === defaultEnvironment);
  const both = (variable: string, field: string) =>
    refuse(`${variable} and ${field} of the environment "${defaultEnvironment}" are both set; remove one of them`);
  if (env["LATCHKEY_FORWARD_URL"]?.trim() && dev !== undefined && dev.forwardUrl !== "") {
    both("LATCHKEY_FORWARD_URL", "forward.url");
  }
  if (env["LATCHKEY_ALLOWED_ORIGINS"]?.trim() && dev?.allowedOrigins !== undefined) {
    both("LATCHKEY_ALLOWED_ORIGINS", "allowed_origins");
  }
  if ((env["LATCHKEY_FORWARD_SECRET"] || env["LATCHKEY_FORWARD_SECRET_FILE"]) && isPinned) {
    both("LATCHKEY_FORWARD_SECRET", "forward.secret");
  }
}
