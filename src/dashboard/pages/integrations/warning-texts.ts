import type { Integration, IntegrationWarning } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { BadgeTone } from "../../components/badge.tsx";
import { words } from "../../data/format.ts";

interface WarningText {
  readonly title: string;
  readonly tone: "bad" | "warn" | "info";
  /** The field of the settings that mends it. */
  readonly field?: string;
}

const texts: Readonly<Record<string, WarningText>> = {
  client_missing: { title: "No OAuth client", tone: "bad", field: "oauth.client_id" },
  setting_missing: { title: "Setting missing", tone: "bad" },
  no_refresh_tokens: { title: "No refresh tokens", tone: "warn", field: "oauth.scopes" },
  short_lived_refresh_tokens: { title: "Refresh tokens end early", tone: "warn", field: "oauth.publishing" },
  verification_needed: { title: "Verification needed", tone: "warn", field: "oauth.publishing" },
  publishing_unknown: { title: "Publishing state unknown", tone: "info", field: "oauth.publishing" },
  webhooks_unproven: { title: "Webhooks are not verified", tone: "warn", field: "secrets.webhook_secret" },
  shared_callback: { title: "Shared redirect URI", tone: "warn", field: "callback" },
  discovery_failed: { title: "MCP server not read", tone: "warn" },
  issuer_changed: { title: "Authorization server changed", tone: "bad", field: "oauth.client_id" },
  host_prefix_ignored: { title: "Host prefix ignored", tone: "info", field: "hosts" },
};

export const warningText = ({ code }: Pick<IntegrationWarning, "code">): WarningText =>
  texts[code] ?? { title: words(code), tone: "warn" };

interface IntegrationState {
  readonly text: string;
  readonly tone: BadgeTone;
  readonly title: string;
}

/** The state of an integration in one or two words. */
export function stateOf({ warnings }: Pick<Integration, "warnings">): IntegrationState {
  const shown = warnings.map((one) => warningText(one));
  const [first] = shown.filter(({ tone }) => tone === "bad");
  const title = shown.map((one) => one.title).join(", ");
  if (first !== undefined) return { text: first.title, tone: "bad", title };
  const [only] = shown;
  if (only === undefined) return { text: "Ready", tone: "good", title: "No warnings" };
  const tone = shown.some((one) => one.tone === "warn") ? "warn" : "info";
  return { text: shown.length === 1 ? only.title : `${shown.length} warnings`, tone, title };
}
