import type { IntegrationSetup } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { CopyField } from "../../components/copy.tsx";
import { Icon } from "../../components/icon.tsx";
import { MarkedText } from "../../components/marked-text.tsx";
import { safeLink } from "../../data/format.ts";
import { providerTitle } from "../../data/known-providers.ts";

interface SetupChecklistProps {
  readonly setup: IntegrationSetup;
  readonly provider: Provider;
  /** The scopes that the integration requests, to be allowed there. */
  readonly scopes: readonly string[];
}

/** What to do in the provider's console, with the values to enter there. */
export function SetupChecklist({ setup, provider, scopes }: SetupChecklistProps) {
  const { steps, consoleUrl, docsUrl } = setup;
  const title = providerTitle(provider);
  const console = safeLink(consoleUrl);
  const docs = safeLink(docsUrl);
  return (
    <aside class="card checklist" aria-label={`What to do at ${title}`}>
      <div class="checklist-head">
        <h2>At {title}</h2>
        {console !== undefined && (
          <a class="button small" href={console} target="_blank" rel="noreferrer">
            Open the console <Icon name="out" />
          </a>
        )}
      </div>
      {steps.length === 0 ? (
        <p class="quiet">{nothingText(provider)}</p>
      ) : (
        <ol>
          {steps.map(({ text, value }, i) => (
            <li key={i}>
              <p>
                <MarkedText text={text} />
              </p>
              <StepValue value={value} setup={setup} scopes={scopes} />
            </li>
          ))}
        </ol>
      )}
      {docs !== undefined && (
        <p class="quiet">
          <a href={docs} target="_blank" rel="noreferrer">
            API documentation of {title}
          </a>
        </p>
      )}
    </aside>
  );
}

const nothingText = ({ auth }: Provider): string =>
  auth.case === "none"
    ? "Nothing to register: the API takes requests without credentials."
    : "Nothing to register. Each user enters credentials of their own when they connect.";

interface StepValueProps {
  readonly value: string;
  readonly setup: IntegrationSetup;
  readonly scopes: readonly string[];
}

function StepValue({ value, setup, scopes }: StepValueProps) {
  const { callbackUrl, webhookUrl } = setup;
  if (value === "callback_url" && callbackUrl !== "") return <CopyField text={callbackUrl} label="redirect URI" />;
  if (value === "webhook_url" && webhookUrl !== "") return <CopyField text={webhookUrl} label="webhook URL" />;
  if (value === "scopes" && scopes.length > 0) return <CopyField text={scopes.join(" ")} label="scopes" />;
  return null;
}
