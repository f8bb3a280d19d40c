import { type Integration, IntegrationService } from "../../gen/latchkey/v1/integration_pb.ts";
import { type Provider, ProviderService } from "../../gen/latchkey/v1/provider_pb.ts";
import { commandWord } from "../process/command-word.ts";
import type { CommandSession } from "../session.ts";
import { escapeControl } from "../terminal/escape-control.ts";
import { createPrompter, type Prompter } from "../terminal/prompter.ts";
import { cut } from "../terminal/table.ts";
import { write } from "../terminal/terminal.ts";

/** What a person has already given as arguments and options. */
export interface WizardStart {
  readonly key?: string | undefined;
  readonly provider?: string | undefined;
  readonly displayName?: string | undefined;
  readonly clientId?: string | undefined;
  readonly hasClientSecret: boolean;
  readonly scopes?: readonly string[] | undefined;
}

/** The answers of a person. */
export interface WizardAnswers {
  readonly key: string;
  readonly provider: string;
  readonly displayName: string | undefined;
  readonly clientId: string | undefined;
  readonly clientSecret: string | undefined;
  readonly scopes: readonly string[] | undefined;
}

/** Asks for what an integration needs, and says where to get it. */
export async function askForIntegration(session: CommandSession, start: WizardStart): Promise<WizardAnswers> {
  const prompter = createPrompter(session.terminal);
  const say = (text: string) => write(session.terminal.stderr, `${text}\n`);
  try {
    const provider = await chooseProvider(session, prompter, start.provider);
    const key = start.key ?? (await prompter.ask("Name of the integration", { defaultAnswer: provider.name }));
    const answers = { key, provider: provider.name, displayName: start.displayName };
    if (!needsApp(provider)) {
      return { ...answers, clientId: start.clientId, clientSecret: undefined, scopes: start.scopes };
    }
    await sayWhereToRegister(session, provider, say);
    const clientId = start.clientId ?? (await prompter.ask("Client ID (empty: add it later)"));
    if (clientId === "") return { ...answers, clientId: undefined, clientSecret: undefined, scopes: start.scopes };
    const clientSecret = start.hasClientSecret
      ? undefined
      : await prompter.ask("Client secret (not shown)", { isHidden: true, isRequired: true });
    return { ...answers, clientId, clientSecret, scopes: start.scopes ?? (await askForScopes(provider, prompter)) };
  } finally {
    prompter.close();
  }
}

/** Whether connections are made through an app that is registered at the provider. */
const needsApp = ({ auth }: Provider): boolean =>
  auth.case === "oauth2" || auth.case === "oauth1" || (auth.case === "app" && auth.value.installUrl !== "");

async function askForScopes(provider: Provider, prompter: Prompter): Promise<readonly string[] | undefined> {
  if (provider.auth.case !== "oauth2") return undefined;
  const defaults = provider.auth.value.defaultScopes.join(" ");
  const answer = await prompter.ask("Scopes, separated by spaces", { defaultAnswer: defaults });
  return answer === defaults ? undefined : answer.split(/[\s,]+/).filter((scope) => scope !== "");
}

async function sayWhereToRegister(
  { client, environment }: CommandSession,
  provider: Provider,
  say: (text: string) => Promise<void>,
): Promise<void> {
  const page = provider.consoleUrl === "" ? provider.docsUrl : provider.consoleUrl;
  const app = `\nYou need an OAuth app for ${escapeControl(provider.displayName)}`;
  await say(page === "" ? `${app}.` : `${app}:\n  ${escapeControl(page)}`);
  const { integrations } = await client(IntegrationService).listIntegrations({ environment, pageSize: 100 });
  const shared = integrations.map(({ callbackUrl }) => callbackUrl).find((url) => url.endsWith("/oauth/callback"));
  if (isShared(provider) && shared !== undefined) await say(`Its redirect URI:\n  ${escapeControl(shared)}\n`);
  // A redirect URI of the integration's own does not exist before the integration.
  else await say("To see its redirect URI first, leave the client ID empty.\n");
}

/** Whether a new integration of the provider has the redirect URI that integrations share. */
const isShared = ({ auth }: Provider): boolean =>
  auth.case === "oauth1" || (auth.case === "oauth2" && auth.value.issuer !== "");

const maxChoices = 12;

/** Searches the catalog until one provider is chosen, by number or by name. */
async function chooseProvider(
  { client, terminal }: CommandSession,
  prompter: Prompter,
  given: string | undefined,
): Promise<Provider> {
  const say = (text: string) => write(terminal.stderr, `${text}\n`);
  let search = given;
  let listed: readonly Provider[] = [];
  for (;;) {
    search ??= await prompter.ask("Provider (a name, or a part of it to search)");
    const chosen = /^\d+$/.test(search) ? listed[Number(search) - 1] : undefined;
    if (chosen !== undefined) return chosen;
    const { providers } = await client(ProviderService).listProviders({ search, pageSize: 1_000 });
    const exact = providers.find(({ name }) => name === search);
    if (exact !== undefined) return exact;
    listed = providers.slice(0, maxChoices);
    if (providers.length === 0) await say(`No provider contains "${escapeControl(search)}".`);
    for (const [at, { name, displayName }] of listed.entries()) {
      const line = `  ${String(at + 1).padStart(2)}  ${name.padEnd(24)} ${displayName}`;
      await say(cut(escapeControl(line), (terminal.columns ?? 80) - 1));
    }
    if (providers.length > maxChoices)
      await say(`      … and ${providers.length - maxChoices} more: type more of the name`);
    const defaultAnswer = listed.length === 1 ? "1" : "";
    search = await prompter.ask(listed.length > 0 ? "Number, name or search" : "Provider", { defaultAnswer });
  }
}

/** Says what to do after an integration was created. */
export async function sayNextSteps(
  { client, terminal, environment }: CommandSession,
  { key, provider: name, callbackUrl, oauth }: Integration,
): Promise<void> {
  const { provider } = await client(ProviderService).getProvider({ name });
  const flag = environment === "" ? "" : ` -e ${environment}`;
  const page = provider?.consoleUrl || provider?.docsUrl || "";
  const hasApp = provider !== undefined && needsApp(provider);
  const update = `${commandWord(terminal.env)} integrations update ${key}${flag}`;
  const lines = [
    ...(hasApp
      ? [
          "",
          "Register this redirect URI in your OAuth app:",
          `  ${callbackUrl}`,
          ...(page === "" ? [] : [`  at ${page}`]),
        ]
      : []),
    ...(hasApp && !oauth?.clientId
      ? ["", "Then give Latchkey the app's client:", `  ${update} --client-id ID --client-secret-file FILE`]
      : []),
    "",
    "Connect a first account:",
    `  ${commandWord(terminal.env)} connect ${key} --end-user me${flag}`,
  ];
  await write(terminal.stderr, lines.map((line) => `${escapeControl(line)}\n`).join(""));
}
