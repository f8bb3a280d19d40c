import { durationMs, timestampMs, timestampNow } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import { version } from "../../base/version.ts";
import type { Broker } from "../../broker/broker.ts";
import { requireKeyItself } from "../../broker/setup/caller.ts";
import type { EnvironmentSettings } from "../../broker/setup/environment-rules.ts";
import { defaultOverlapMs } from "../../broker/setup/pinned-secrets.ts";
import { noteReveal } from "../../broker/setup/reveals.ts";
import { isUnlimited } from "../../core/access/limits.ts";
import type { BrandingFields } from "../../core/branding.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { EnvironmentService } from "../../gen/latchkey/v1/environment_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";

export const environmentService = (broker: Broker): ServiceImpl<typeof EnvironmentService> => ({
  ...keyAndSettingMethods(broker),
  ...emptyingMethods(broker),
});

const keyAndSettingMethods = ({
  environments,
  access,
  signingSecrets,
  publicUrl,
  audit,
}: Broker): Omit<ServiceImpl<typeof EnvironmentService>, "emptyEnvironment" | "getEmptying"> => ({
  async createEnvironment({ name, forwardUrl, secondaryForwardUrl, allowedOrigins, branding }, context) {
    const wanted = { name, forwardUrl, secondaryForwardUrl, allowedOrigins, branding };
    return { environment: await environments.create(wanted, callerOf(context).keyId) };
  },
  async getEnvironment({ name }, context) {
    return { environment: await environments.get(await environments.of(callerOf(context), name)) };
  },
  async listEnvironments(request, context) {
    const { environment, session } = callerOf(context);
    if (environment !== undefined && session === undefined) {
      return { environments: [await environments.get(environment)] };
    }
    if (session?.environments !== undefined) {
      const found = await Promise.allSettled(session.environments.map((name) => environments.get(name)));
      // The configuration may grant an environment that does not exist, or not yet.
      return { environments: found.flatMap((one) => (one.status === "fulfilled" ? one.value : [])) };
    }
    const { items, next } = await environments.list(pageOf(request));
    return { environments: [...items], nextPageToken: next };
  },
  async updateEnvironment({ environment, updateMask, expectedRevision }, context) {
    if (environment === undefined) throw new Error("a validated request names its environment");
    const paths = updateMask?.paths ?? [];
    const settings = settingsOf(environment, paths.length === 0 ? Object.keys(settable) : paths);
    const requested = { name: environment.name, settings, expectedRevision };
    return { environment: await environments.update(requested, callerOf(context).keyId) };
  },
  async deleteEnvironment({ name, expectedRevision }, context) {
    await environments.delete({ name, expectedRevision }, callerOf(context).keyId);
    return {};
  },
  async createKey({ id, environment, scopes, expiresAt, limits }, context) {
    const caller = callerOf(context);
    const hasAllScopes = scopes.length === 0 && (limits === undefined || isUnlimited(limits));
    if (hasAllScopes || scopes.some((one) => one === Scope.CREDENTIALS_READ || one === Scope.ADMIN)) {
      requireKeyItself(caller, "a key that may read credentials is not given");
    }
    const expiresAtMs = expiresAt === undefined ? undefined : timestampMs(expiresAt);
    return access.create({ id, environment, scopes, expiresAtMs, limits }, caller.keyId);
  },
  async listKeys({ environment, ...request }) {
    if (environment !== "") await environments.get(environment);
    const { items, next } = await access.list({ environment }, pageOf(request));
    return { keys: [...items], nextPageToken: next };
  },
  async rotateKey({ id, newId, overlap, expiresAt, expectedRevision }, context) {
    const caller = callerOf(context);
    requireKeyItself(caller, "a successor of a key is not given");
    const overlapMs = overlap === undefined ? defaultOverlapMs : durationMs(overlap);
    const expiresAtMs = expiresAt === undefined ? undefined : timestampMs(expiresAt);
    const request = { id, newId, overlapMs, expiresAtMs, expectedRevision };
    const { previous, ...made } = await access.rotate(request, caller.keyId);
    return { ...made, ...(previous && { previous }) };
  },
  async revokeKey({ id, expectedRevision }, context) {
    await access.revoke({ id, expectedRevision }, callerOf(context).keyId);
    return {};
  },
  async getCaller(_request, context) {
    const { keyId, environment = "", scopes, session, identity } = callerOf(context);
    return {
      keyId: session?.person === undefined ? keyId : "",
      environment,
      scopes: [...scopes],
      version,
      publicUrl: publicUrl(),
      time: timestampNow(),
      browserSession: session?.id ?? "",
      person: session?.person ?? "",
      ...(identity && { identity }),
    };
  },
  async listSigningSecrets({ environment: requested, reveal }, context) {
    const caller = callerOf(context);
    const environment = await environments.of(caller, requested);
    if (reveal) {
      requireKeyItself(caller, "credentials and other secrets are not shown");
      await noteReveal(audit, caller, { action: "signing_secret.reveal", environment, targets: [environment] });
    }
    return { secrets: [...(await signingSecrets.list(environment, { reveal }))] };
  },
  async rotateSigningSecret({ environment: requested, overlap }, context) {
    const caller = callerOf(context);
    requireKeyItself(caller, "a signing secret is not given");
    const environment = await environments.of(caller, requested);
    const overlapMs = overlap === undefined ? defaultOverlapMs : durationMs(overlap);
    return { secret: await signingSecrets.rotate({ environment, overlapMs }, caller.keyId) };
  },
});

const emptyingMethods = ({
  environments,
  emptyings,
}: Broker): Pick<ServiceImpl<typeof EnvironmentService>, "emptyEnvironment" | "getEmptying"> => ({
  async emptyEnvironment({ name, keepGrant }, context) {
    const caller = callerOf(context);
    const environment = await environments.of(caller, name);
    return { emptying: await emptyings.empty({ environment, keepGrant }, caller.keyId) };
  },
  async getEmptying({ name }, context) {
    return { emptying: await emptyings.reportOf(await environments.of(callerOf(context), name)) };
  },
});

const settable = {
  forward_url: ({ forwardUrl }: EnvironmentSettings) => ({ forwardUrl }),
  secondary_forward_url: ({ secondaryForwardUrl }: EnvironmentSettings) => ({ secondaryForwardUrl }),
  allowed_origins: ({ allowedOrigins }: EnvironmentSettings) => ({ allowedOrigins }),
  branding: ({ branding }: EnvironmentSettings) => ({ branding: { ...noBranding, ...branding } }),
} as const;

const noBranding = { name: "", logo: "", accentColor: "", supportUrl: "" };

/** Fields of the branding that can be changed by themselves. */
const settableBranding: Readonly<Record<string, keyof BrandingFields>> = {
  "branding.name": "name",
  "branding.logo": "logo",
  "branding.accent_color": "accentColor",
  "branding.support_url": "supportUrl",
};

function settingsOf(from: EnvironmentSettings, paths: readonly string[]): Partial<EnvironmentSettings> {
  const fields = paths.flatMap((path) => settableBranding[path] ?? []);
  const branding = Object.fromEntries(fields.map((field) => [field, from.branding?.[field] ?? ""]));
  const whole = wholeSettings(
    from,
    paths.filter((path) => settableBranding[path] === undefined),
  );
  return fields.length === 0 || whole.branding !== undefined ? whole : { ...whole, branding };
}

function wholeSettings(from: EnvironmentSettings, paths: readonly string[]): Partial<EnvironmentSettings> {
  const parts = paths.map((path) => {
    if (Object.hasOwn(settable, path)) return settable[path as keyof typeof settable](from);
    const message = `cannot be changed: ${path}`;
    throw new Fault("invalid_body", message, { mistakes: [{ path: ["update_mask"], message }] });
  });
  return Object.assign({}, ...parts) as Partial<EnvironmentSettings>;
}
