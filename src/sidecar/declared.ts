import type { Log } from "../base/log.ts";
import type { Broker } from "../broker/broker.ts";
import { checkAliases } from "../config/check-aliases.ts";
import { replacesSecretKey } from "../config/check-keys.ts";
import type { Changeable, Config } from "../config/config.ts";
import { type DeclaredSetup, defaultEnvironment } from "../core/declared.ts";
import { defaultScopes } from "../core/scopes.ts";
import { Scope } from "../gen/latchkey/v1/access_pb.ts";

interface DeclareOptions {
  /** The configuration of the start, whose variables pin parts of the setup. */
  readonly config: Config;
  readonly broker: Broker;
  readonly log: Log;
}

/** Stores what the configuration file declares and variables pin. Throws if an alias names an unknown integration. */
export async function declareSetup(
  { declared, undeclaredAliases }: Pick<Changeable, "declared" | "undeclaredAliases">,
  { config, broker, log }: DeclareOptions,
): Promise<void> {
  await checkAliases(undeclaredAliases, { integrations: broker.integrations, log });
  await broker.declare(withPinned(declared, config));
}

/**
 * Adds to the declared setup what variables pin: the default environment, its keys, its forward URL, the control key.
 */
function withPinned(declared: DeclaredSetup, config: Config): DeclaredSetup {
  const { secretKey, adminKey, forwardUrl, forwardSecret, allowedOrigins } = config;
  const isDeclared = declared.environments.some(({ name }) => name === defaultEnvironment);
  const isPinned = [secretKey, forwardUrl, forwardSecret, allowedOrigins].some((value) => value !== undefined);
  const needsDefault = !isDeclared && (declared.environments.length === 0 || isPinned);
  const empty = { name: defaultEnvironment, forwardUrl: "", secondaryForwardUrl: "", allowedOrigins: undefined };
  const environments = needsDefault ? [...declared.environments, empty] : declared.environments;
  return {
    ...declared,
    environments: environments.map((environment) =>
      environment.name === defaultEnvironment
        ? {
            ...environment,
            forwardUrl: forwardUrl ?? environment.forwardUrl,
            allowedOrigins: allowedOrigins ?? environment.allowedOrigins,
          }
        : environment,
    ),
    signingSecrets: [
      ...declared.signingSecrets,
      ...(forwardSecret === undefined ? [] : [{ environment: defaultEnvironment, secrets: [forwardSecret] }]),
    ],
    keys: [
      ...declared.keys,
      ...(secretKey === undefined || replacesSecretKey(declared, secretKey)
        ? []
        : [
            {
              id: "secret-key",
              environment: defaultEnvironment,
              secret: secretKey,
              scopes: defaultScopes,
              limits: undefined,
            },
          ]),
      ...(adminKey === undefined
        ? []
        : [{ id: "admin-key", environment: "", secret: adminKey, scopes: [Scope.ADMIN], limits: undefined }]),
    ],
  };
}
