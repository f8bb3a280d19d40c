import type { Fault } from "../../base/fault.ts";
import { checkConnectionConfig } from "../../core/connection-rules.ts";
import {
  type ConnectPageOptions,
  type FormState,
  fieldsOf,
  type IntegrationChoice,
  titleOf,
} from "../pages/connect-page.ts";
import { type FormField, paramName } from "../pages/form-fields.ts";
import { filled } from "../pages/page-settings.ts";

/** Values that were entered into a form, by input name. */
export type FormValues = Readonly<Record<string, string>>;

interface EnteredForm {
  readonly choice: IntegrationChoice;
  readonly showing: Pick<ConnectPageOptions, "session" | "settings">;
  readonly values: FormValues;
}

type Mending = Pick<FormState, "error" | "code" | "status" | "values" | "problems">;

/** Returns the form to show again after an error that the user can fix; undefined: the user cannot. */
export function mendableForm(fault: Fault, { choice, showing, values }: EnteredForm): Mending | undefined {
  const fields = fieldsOf(choice, showing);
  const { problems: texts } = showing.settings.texts;
  const state = (error: string, wrong: readonly FormField[], problemOf: (field: FormField) => string): Mending => ({
    error: filled(error, { title: titleOf(choice, showing.settings) }),
    code: fault.code,
    status: fault.status,
    values: withoutSecrets(fields, values),
    problems: Object.fromEntries(wrong.map((field) => [field.name, problemOf(field)])),
  });
  const check = ({ name, missing, wrong }: FormField) => ((values[name] ?? "") === "" ? missing : wrong);
  if (fault.code === "connection_test_failed") {
    const credentials = fields.filter(({ isCredential }) => isCredential);
    return state(texts.refused, credentials, ({ wrong }) => wrong);
  }
  const named = new Set(fault.mistakes.map(({ path: [first = "", name = ""] }) => inputNamed(first, name)));
  const wrong = fields.filter(({ name }) => named.has(name));
  if (wrong.length > 0) return state(texts.check, wrong, check);
  if (fault.code === "provider_unreachable") return state(texts.unreachable, [], check);
  return passing.has(fault.code) ? state(texts.later, [], check) : undefined;
}

/** Returns a form with the values of a link. A value that the provider's rules refuse has a problem. */
export function prefilledForm({ choice, showing, values }: EnteredForm): Mending {
  const fields = fieldsOf(choice, showing);
  const wrong = fields.filter(({ name }) => {
    const rule = choice.provider.connectionFields.find((one) => paramName(one.name) === name);
    const value = values[name] ?? "";
    return rule !== undefined && value !== "" && checkConnectionConfig({ [rule.name]: value }, [rule]).length > 0;
  });
  return {
    error: wrong.length === 0 ? "" : showing.settings.texts.problems.check,
    ...(wrong.length === 0 ? { status: 200 } : { status: 400, code: "invalid_query_params" }),
    values: withoutSecrets(fields, values),
    problems: Object.fromEntries(wrong.map((field) => [field.name, field.wrong])),
  };
}

/** Returns the bare names of the connection's inputs; the form's page finds the other inputs without help. */
export const wrongParams = ({ problems }: Mending): string[] =>
  Object.keys(problems).flatMap((name) => /^params\[(.+)\]$/s.exec(name)?.[1] ?? []);

/** Error codes that another attempt may not get. */
const passing: ReadonlySet<string> = new Set(["conflict", "store_unavailable", "overloaded", "provider_timeout"]);

const inputNamed = (first: string, name: string): string => (first === "connection_config" ? paramName(name) : first);

/** A user name without a password may be an API key that some API takes instead. */
function withoutSecrets(fields: readonly FormField[], values: FormValues): FormValues {
  const kept = fields.filter(({ name, secret }) => !secret && !(name === "username" && !values["password"]));
  return Object.fromEntries(kept.map(({ name }) => [name, values[name] ?? ""]));
}
