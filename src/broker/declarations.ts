import { Fault } from "../base/fault.ts";
import type { DeclaredSetup } from "../core/declared.ts";
import { checkSettings } from "../core/integration-settings.ts";
import type { Integration } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import type { McpDeclarations } from "./mcp/mcp-declarations.ts";
import type { PoliciesInForce } from "./policies/policies-in-force.ts";
import type { Access } from "./setup/access.ts";
import type { Environments } from "./setup/environments.ts";
import type { Integrations } from "./setup/integrations.ts";
import type { Providers } from "./setup/providers.ts";
import type { SigningSecrets } from "./setup/signing-secrets.ts";
import type { ScriptVariables } from "./syncs/script-variables.ts";

interface DeclarationsOptions {
  readonly environments: Environments;
  readonly access: Access;
  readonly signingSecrets: SigningSecrets;
  readonly variables: ScriptVariables;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly mcp: McpDeclarations;
  readonly policies: Pick<PoliciesInForce, "declare">;
}

/**
 * Brings the store in line with the configuration file. Entries that the file no longer declares are not deleted, since
 * they may have connections. They become editable through the API again. Applying the same file twice changes nothing.
 */
export const createDeclarations =
  ({ environments, access, signingSecrets, variables, integrations, providers, mcp, policies }: DeclarationsOptions) =>
  async (declared: DeclaredSetup): Promise<void> => {
    // Check before any change: a file is applied whole or not at all.
    const known = new Map(declared.providers.map((provider) => [provider.name, provider]));
    const named = declared.integrations.map(mcp.named);
    for (const integration of named) {
      if (integration.mcpUrl !== "") continue;
      requireValidSettings(integration, known.get(integration.provider) ?? providers.findBuiltIn(integration.provider));
    }
    for (const integration of named) await integrations.requireSameProvider(integration);
    for (const name of providers.declared()) if (!known.has(name)) await integrations.requireUnused(name);

    providers.declare(declared.providers);
    policies.declare(declared.policies);
    access.declare(declared.keys);
    variables.declare(declared.variables);
    await signingSecrets.declare(declared.signingSecrets);
    await environments.declare(declared.environments);
    for (const integration of named) await integrations.declare(await mcp.prepare(integration));
    const kept = new Set(declared.integrations.map(({ environment, key }) => `${environment}\0${key}`));
    for (const integration of await integrations.declared()) {
      if (!kept.has(`${integration.environment}\0${integration.key}`)) await integrations.release(integration);
    }
  };

function requireValidSettings(integration: Integration, provider: Provider): void {
  const [mistake] = checkSettings(integration, provider);
  if (mistake === undefined) return;
  const name = mistake.path.at(-1) ?? "";
  throw new Fault("invalid_body", `the integration "${integration.key}": settings.${name}: ${mistake.message}`);
}
