import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault, type Mistake } from "../../base/fault.ts";
import { randomId } from "../../base/ids.ts";
import { type BrandingFields, checkBranding } from "../../core/branding.ts";
import { checkWebhookUrl } from "../../core/connection-rules.ts";
import type { DeclaredEnvironment } from "../../core/declared.ts";
import { isOrigin } from "../../core/outgoing/origin.ts";
import {
  type Branding,
  BrandingSchema,
  type Environment,
  EnvironmentSchema,
} from "../../gen/latchkey/v1/environment_pb.ts";

export interface EnvironmentSettings {
  readonly forwardUrl: string;
  readonly secondaryForwardUrl: string;
  readonly allowedOrigins: readonly string[];
  /** In an update, fields that are left out keep their values. */
  readonly branding?: Partial<BrandingFields> | undefined;
}

export interface NewEnvironment extends EnvironmentSettings {
  readonly name: string;
}

export function newEnvironment({ name, branding, ...settings }: NewEnvironment, nowMs: number): Environment {
  const now = timestampFromMs(nowMs);
  const allowedOrigins = [...settings.allowedOrigins];
  const brand = brandingOf(branding);
  return create(EnvironmentSchema, {
    ...settings,
    allowedOrigins,
    ...(brand && { branding: brand }),
    name,
    id: randomId(),
    createdAt: now,
    updatedAt: now,
  });
}

const fieldsOf = ({ name = "", logo = "", accentColor = "", supportUrl = "" }: Partial<BrandingFields>) => ({
  name,
  logo,
  accentColor,
  supportUrl,
});

/** Returns the branding to store; undefined: nothing is set. */
function brandingOf(fields: Partial<BrandingFields> | undefined): Branding | undefined {
  const isSet = fields !== undefined && Object.values(fieldsOf(fields)).some((value) => value !== "");
  return isSet ? create(BrandingSchema, fieldsOf(fields)) : undefined;
}

/** Returns an environment with changed settings. */
export function changedEnvironment(before: Environment, settings: Partial<EnvironmentSettings>): Environment {
  const { branding, allowedOrigins, ...rest } = settings;
  const { branding: known, ...others } = before;
  const brand = branding === undefined ? known : brandingOf({ ...known, ...branding });
  return {
    ...others,
    ...rest,
    allowedOrigins: [...(allowedOrigins ?? before.allowedOrigins)],
    ...(brand && { branding: brand }),
  };
}

/** Names of the settings in the proto. */
const fieldNames: Readonly<Record<string, string>> = {
  name: "name",
  forwardUrl: "forward_url",
  secondaryForwardUrl: "secondary_forward_url",
  allowedOrigins: "allowed_origins",
  branding: "branding",
};

/** Earlier versions declared an environment with all of its fields, and stored no list of the fields. */
const declaredFieldsOf = ({ declared, declaredFields }: Environment): readonly string[] =>
  declared && declaredFields.length === 0 ? Object.values(fieldNames) : declaredFields;

/**
 * Returns the environment with the fields that the configuration sets; a field that it no longer sets becomes empty.
 * Undefined: the environment is no longer declared.
 */
export function declaredEnvironment(declared: DeclaredEnvironment | undefined, base: Environment): Environment {
  if (declared === undefined) return { ...base, declared: false, declaredFields: [] };
  const before = declaredFieldsOf(base);
  const { name, forwardUrl, secondaryForwardUrl, allowedOrigins, branding } = declared;
  const wanted = {
    name,
    forwardUrl: forwardUrl || undefined,
    secondaryForwardUrl: secondaryForwardUrl || undefined,
    allowedOrigins: allowedOrigins && [...allowedOrigins],
    branding: brandingOf(branding),
  };
  /** A field that was declared before is emptied; a field that was never declared keeps its value. */
  const undeclared = <F extends keyof EnvironmentSettings>(field: F, none: Environment[F]): Environment[F] =>
    before.includes(fieldNames[field] ?? "") ? none : base[field];
  const { branding: known, ...rest } = base;
  const brand = wanted.branding ?? (before.includes("branding") ? undefined : known);
  return {
    ...rest,
    ...(brand && { branding: brand }),
    declared: true,
    declaredFields: Object.entries(wanted).flatMap(([field, value]) =>
      value === undefined ? [] : (fieldNames[field] ?? []),
    ),
    forwardUrl: wanted.forwardUrl ?? undeclared("forwardUrl", ""),
    secondaryForwardUrl: wanted.secondaryForwardUrl ?? undeclared("secondaryForwardUrl", ""),
    allowedOrigins: wanted.allowedOrigins ?? undeclared("allowedOrigins", []),
  };
}

export function requireUndeclaredFields(environment: Environment, fields: readonly string[]): void {
  const declared = declaredFieldsOf(environment);
  const fixed = fields.map((field) => fieldNames[field] ?? field).filter((field) => declared.includes(field));
  if (fixed.length === 0) return;
  const subject = fixed.includes("name") ? "" : `${fixed.join(" and ")} of `;
  throw new Fault(
    "read_only",
    `${subject}the environment "${environment.name}" is declared in the configuration, a file or variables such as LATCHKEY_FORWARD_URL; change it there`,
  );
}

export function requireValidSettings({
  forwardUrl = "",
  secondaryForwardUrl = "",
  allowedOrigins = [],
  branding = {},
}: Partial<EnvironmentSettings>): void {
  const mistakes: Mistake[] = [
    ...checkWebhookUrl(forwardUrl, ["forward_url"]),
    ...checkWebhookUrl(secondaryForwardUrl, ["secondary_forward_url"]),
    ...allowedOrigins.flatMap((origin, i) =>
      isOrigin(origin)
        ? []
        : [{ path: ["allowed_origins", String(i)], message: "must be an origin such as https://app.example.com" }],
    ),
    ...checkBranding(branding, ["branding"]),
  ];
  if (mistakes.length > 0) throw new Fault("invalid_body", "the environment is not valid", { mistakes });
}
