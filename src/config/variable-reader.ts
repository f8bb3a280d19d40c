import { type ListenAddress, parseListenAddress } from "../base/http/listener.ts";
import type { SecretSource } from "./secrets.ts";
import type { TracingVariable } from "./tracing.ts";
import { choice, durationOf, optionalChoice, type Refuse } from "./values.ts";
import { type VariableName, variables } from "./variables.ts";

/** Reads environment variables by name. Refuses values that are not valid. */
export interface VariableReader {
  /** Returns the trimmed text; undefined if it is empty. */
  text(name: VariableName): string | undefined;
  /** Returns the text, or that of the more specific variable of OpenTelemetry if it is set. */
  mostSpecific(name: TracingVariable): { readonly name: string; readonly value: string | undefined };
  /** Returns the value, or the contents of the file that `<name>_FILE` names. */
  secret(name: VariableName): string | undefined;
  /** Whether `<name>_FILE` is set. */
  isInFile(name: VariableName): boolean;
  /** Returns the address to listen on; undefined for `off`. */
  address(name: VariableName, fallback: string | undefined): ListenAddress | undefined;
  /** Returns milliseconds. */
  duration(name: VariableName, fallback: string): number;
  choice<T extends string>(name: VariableName, options: readonly T[], fallback: T): T;
  optionalChoice<T extends string>(name: VariableName, options: readonly T[]): T | undefined;
}

interface ReaderOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly secrets: SecretSource;
  readonly refuse: Refuse;
}

export function createVariableReader({ env, secrets, refuse }: ReaderOptions): VariableReader {
  const text = (name: string) => env[name]?.trim() || undefined;
  return {
    text,
    mostSpecific(name) {
      const variable = variables.find((one) => one.name === name);
      const twin = variable !== undefined && "twin" in variable ? variable.twin : undefined;
      const value = twin === undefined ? undefined : text(twin);
      return value === undefined ? { name, value: text(name) } : { name: twin ?? name, value };
    },
    secret(name) {
      const file = env[`${name}_FILE`];
      if (file === undefined || file === "") return env[name] || undefined;
      if (env[name]) refuse(`${name} and ${name}_FILE are both set; remove one of them`);
      const outcome = secrets.fromFile(file);
      if ("value" in outcome) return outcome.value;
      refuse(`${name}_FILE: ${outcome.mistake}`);
      return undefined;
    },
    isInFile: (name) => Boolean(env[`${name}_FILE`]),
    address(name, fallback) {
      // Not trimmed: `8080 ` is refused rather than guessed at.
      const written = env[name] || fallback;
      if (written === undefined || written === "off") return undefined;
      const address = parseListenAddress(written);
      if (address === undefined) refuse(`${name}: ${JSON.stringify(written)} must be host:port, :port or unix:/path`);
      return address;
    },
    duration: (name, fallback) => durationOf({ name, text: text(name) ?? fallback, refuse }),
    choice: (name, options, fallback) => choice({ name, text: text(name) ?? fallback, of: options, refuse }),
    optionalChoice: (name, options) => optionalChoice({ name, text: text(name), of: options, refuse }),
  };
}
