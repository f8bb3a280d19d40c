import type { SchemeName } from "../../auth/scheme.ts";
import { type Html, html } from "../../base/html.ts";
import type { ConnectionField, Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { patternMistake } from "../../providers/field-pattern.ts";
import { filled, type PageSettings, provided } from "./page-settings.ts";

/** An input of the connect page's form. */
export interface FormField {
  readonly name: string;
  readonly id: string;
  readonly label: string;
  readonly help: string;
  readonly example: string;
  readonly pattern: string;
  readonly required: boolean;
  /** The value is never written into a page. */
  readonly secret: boolean;
  readonly isCredential: boolean;
  /** Texts for an empty field, and for a wrong value. */
  readonly missing: string;
  readonly wrong: string;
}

/** The entered values and their problems, by input name. */
export interface Entries {
  readonly values: Readonly<Record<string, string>>;
  readonly problems: Readonly<Record<string, string>>;
}

interface FieldContext {
  readonly provider: Provider;
  /** The integration's name for people. */
  readonly title: string;
  readonly settings: PageSettings;
}

export const paramName = (name: string): string => `params[${name}]`;

/** Returns the input for a value of the connection's `connection_config`. */
export function connectionInput(field: ConnectionField, { provider, title, settings }: FieldContext): FormField {
  const { name, description, example, pattern, required, defaultValue, suffixes } = field;
  const { problems } = settings.texts;
  const host = hostOfExample(field, provider);
  const form =
    host !== undefined
      ? filled(problems.firstPart, { example, host })
      : suffixes.length > 0
        ? filled(problems.suffixes, { suffixes: suffixes.join(", ") })
        : example !== ""
          ? filled(problems.example, { example })
          : filled(problems.form, { title });
  return {
    name: paramName(name),
    id: `field-${name.replace(/\s+/g, "-")}`,
    label: provided(settings, field.title || name),
    help: description === "" ? "" : provided(settings, description),
    example,
    // Older stored patterns may be invalid in browsers: only Latchkey checks those.
    pattern: patternMistake(pattern) === undefined ? pattern : "",
    required: required && defaultValue === "",
    secret: false,
    isCredential: false,
    missing: example === "" ? problems.missing : filled(problems.missingExample, { example }),
    wrong: form,
  };
}

/** Returns `acme.zendesk.com` for a field whose value is the first part of a host of the provider; else undefined. */
function hostOfExample({ name, example }: ConnectionField, { auth, proxy }: Provider): string | undefined {
  if (example === "" || example.includes(".")) return undefined;
  const isOAuth = auth.case === "oauth2" || auth.case === "oauth1";
  const urls = [...(isOAuth ? [auth.value.authorizationUrl] : []), proxy?.baseUrl ?? ""];
  const opening = `https://\${connectionConfig.${name}}.`;
  const url = urls.find((one) => one.startsWith(opening));
  const [rest = ""] = url === undefined ? [] : url.slice(opening.length).split(/[/:?]/, 1);
  return /^[a-z0-9.-]+$/.test(rest) ? `${example}.${rest}` : undefined;
}

/** Returns the inputs for a kind of credentials, with the names of the SDK's dialect; undefined: none can be typed in. */
export function credentialInputs(
  kind: SchemeName | undefined,
  { texts }: PageSettings,
): readonly FormField[] | undefined {
  const { labels, problems } = texts;
  const input: MakeInput = (name, { secret, required }) => ({
    ...{
      name,
      id: name,
      secret,
      required,
      label: labels[name],
      help: "",
      example: "",
      pattern: "",
      isCredential: true,
    },
    missing: required ? problems.missing : problems.userOrPassword,
    wrong: secret ? problems.again : problems.kept,
  });
  return kind === undefined ? undefined : inputsByKind[kind]?.(input);
}

type MakeInput = (
  name: keyof PageSettings["texts"]["labels"],
  options: Pick<FormField, "secret" | "required">,
) => FormField;

/** Inputs of the kinds of credentials that a person can type in; undefined: the kind is authorized or imported. */
const inputsByKind: { readonly [N in SchemeName]: ((input: MakeInput) => readonly FormField[]) | undefined } = {
  apiKey: (input) => [input("apiKey", { secret: true, required: true })],
  // Either may be empty: some providers require that.
  basic: (input) => [
    input("username", { secret: false, required: false }),
    input("password", { secret: true, required: false }),
  ],
  oauth2Client: (input) => [
    input("client_id", { secret: false, required: true }),
    input("client_secret", { secret: true, required: true }),
  ],
  none: () => [],
  oauth2: undefined,
  oauth1: undefined,
  tba: undefined,
  app: undefined,
  jwt: undefined,
  twoStep: undefined,
  signature: undefined,
  awsSigv4: undefined,
  clientCertificate: undefined,
  onBehalf: undefined,
};

/** Returns whether a person can type in credentials of this kind. */
export const isTypedIn = (kind: SchemeName): boolean => inputsByKind[kind] !== undefined;

interface InputsOptions {
  readonly settings: PageSettings;
  readonly isInFrame: boolean;
}

/**
 * Returns the inputs with their labels. The first with a problem gets the focus, or else the first empty one, even
 * without scripts.
 */
export function inputsHtml(
  fields: readonly FormField[],
  { values, problems }: Entries,
  { settings: { texts }, isInFrame }: InputsOptions,
): Html[] {
  const isEmpty = ({ name }: FormField) => (values[name] ?? "") === "";
  const first = fields.find(({ name }) => problems[name] !== undefined) ?? fields.find(isEmpty);
  return fields.map((field) => {
    const { name, id, label, help, example, pattern, required, secret, missing, wrong } = field;
    const problem = problems[name];
    const value = secret ? "" : (values[name] ?? "");
    const attributes: readonly Html[] = [
      secret ? html` type="password"` : html` value="${value}"`,
      example === "" ? html`` : html` placeholder="${example}"`,
      pattern === "" ? html`` : html` pattern="${pattern}" title="${wrong}"`,
      required ? html` required` : html``,
      problem === undefined ? html`` : html` aria-invalid="true"`,
      // Browsers refuse `autofocus` in frames of other sites, and log that.
      field === first && !isInFrame ? html` autofocus` : html``,
      html` aria-describedby="${id}-problem${help === "" ? "" : ` ${id}-help`}"`,
      html` data-missing="${missing}" data-wrong="${wrong}"`,
    ];
    const input = html`<input id="${id}" name="${name}" autocomplete="off" autocapitalize="none" spellcheck="false"${attributes}>`;
    const { show, hide } = texts.form;
    const shown = secret
      ? html`<span class="secret">${input}<button type="button" hidden aria-controls="${id}" data-show="${show}" data-hide="${hide}">${show}</button></span>`
      : input;
    return html`<label for="${id}">${label}</label>${shown}
<p class="bad problem" id="${id}-problem">${problem ?? ""}</p>${help === "" ? "" : html`<p class="quiet" id="${id}-help">${help}</p>`}`;
  });
}
