import type { Command } from "commander";
import type { Act } from "../session.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { addAccessSessions } from "./access-sessions/access-sessions.ts";
import { addAudit } from "./audit.ts";
import { addAuthority } from "./authority.ts";
import { addCall } from "./call.ts";
import { addChannels } from "./channels.ts";
import { addConnect } from "./connect.ts";
import { addConnectSessions } from "./connect-sessions.ts";
import { addConnections } from "./connections/connections.ts";
import { addEdges } from "./edges.ts";
import { addEndUsers } from "./end-users.ts";
import { addEnvironments } from "./environments.ts";
import { addHealth } from "./health.ts";
import { addIdentities } from "./identities.ts";
import { addIntegrations } from "./integrations.ts";
import { addKeys } from "./keys.ts";
import { addLogs } from "./logs.ts";
import { addNameCompletion } from "./name-completion.ts";
import { addOverview } from "./overview/overview.ts";
import { addApprovals } from "./policies/approvals.ts";
import { addPolicies } from "./policies/policies.ts";
import { addProviders } from "./providers.ts";
import { addRequests } from "./requests/requests.ts";
import { addRun } from "./run/run.ts";
import { addActions } from "./scripts/action-runs.ts";
import { addRunWatch } from "./scripts/run-watching.ts";
import { addScripts } from "./scripts/scripts.ts";
import { addSyncs } from "./scripts/syncs.ts";
import { addSessions } from "./sessions.ts";
import { addStore } from "./store.ts";
import { addSystem } from "./system.ts";
import { addWebhooks } from "./webhooks/webhooks.ts";

interface CommandParts {
  readonly terminal: Terminal;
  readonly keepExitCode: (code: number) => void;
}

/** Adds all commands that call a running Latchkey, in the order of the help. */
export function addCommands(program: Command, act: Act, { terminal, keepExitCode }: CommandParts): void {
  addEnvironments(program, act);
  addKeys(program, act);
  addIdentities(program, act);
  addAccessSessions(program, act);
  addApprovals(program, act);
  addSessions(program, act);
  addProviders(program, act, { terminal, keepExitCode });
  addIntegrations(program, act);
  addPolicies(program, act, { terminal, keepExitCode });
  addConnections(program, act);
  addEndUsers(program, act);
  addConnect(program, act);
  addConnectSessions(program, act);
  addCall(program, act);
  addRun(program, act);
  addRequests(program, act);
  addWebhooks(program, act);
  addChannels(program, act);
  addSyncs(program, act);
  addActions(program, act);
  addRunWatch(program, act);
  addScripts(program, act, { terminal, keepExitCode });
  addLogs(program, act);
  addAudit(program, act);
  addEdges(program, act);
  addAuthority(program, act);
  addStore(program, act, { terminal, keepExitCode });
  addSystem(program, act);
  addHealth(program, act);
  addOverview(program, act);
  addNameCompletion(program, act);
}
