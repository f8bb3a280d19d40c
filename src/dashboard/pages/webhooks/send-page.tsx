import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { ExplainWebhookResponse } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Field, Select } from "../../components/field.tsx";
import { PageFrame, Section } from "../../components/page.tsx";
import { FaultNotice, Notice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { indentedJson, textOf } from "../../data/bytes.ts";
import { useIntegrationNames } from "../../data/integration-names.ts";
import { useLoad } from "../../data/load.ts";
import { webhooks } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, navigate, pathOf, queryValue, setQuery } from "../../state/router.ts";
import { headerLines, headersIn } from "./header-lines.ts";

const settleMs = 400;
const shownMatches = 20;

/** Says what Latchkey would do with a webhook, and sends it as a test. */
export function SendPage() {
  const environment = environmentName.value;
  const integration = queryValue("integration");
  const names = useIntegrationNames();
  const headers = useSignal("");
  const body = useSignal("");
  const acting = useAct({ isQuiet: true });
  const from = usePrefill(environment, queryValue("from"), (filled) => {
    headers.value = filled.headers;
    body.value = filled.body;
  });
  const [parsed, mistake] = headersIn(headers.value);
  const settled = useSettled(`${headers.value}\0${body.value}`);
  const request = { environment, integration, headers: [...parsed], body: new TextEncoder().encode(body.value) };
  const explained = useLoad(
    async (signal) => (integration === "" ? undefined : webhooks.explainWebhook(request, { signal })),
    [environment, integration, settled],
  );
  const send = () =>
    acting.run(async () => {
      const { notification } = await webhooks.sendTestNotification(request);
      if (notification !== undefined) navigate(linkTo(`/webhooks${pathOf(notification.id)}`));
    }, "Sent. This is what came of it.");
  return (
    <PageFrame
      title="Explain or send a test"
      above={[["Webhooks", linkTo("/webhooks")]]}
      lead="Write or paste a webhook. The explanation follows as you type; nothing is stored before you send it."
    >
      <div class="columns">
        <form
          class="form wide"
          onSubmit={(event) => {
            event.preventDefault();
            if (integration !== "" && mistake === undefined) void send();
          }}
        >
          <Select
            label="Integration"
            value={integration}
            onInput={(value) => setQuery({ integration: value })}
            options={[["", "Choose one"], ...namesWith(names, integration)]}
          />
          <Field
            label="Headers"
            isCode
            rows={5}
            value={headers.value}
            onInput={(value) => (headers.value = value)}
            placeholder="x-github-event: push"
            problem={mistake}
            help="One on each line, as name: value."
          />
          <Field
            label="Body"
            isCode
            rows={16}
            value={body.value}
            onInput={(value) => (body.value = value)}
            help="Exactly as the provider would send it."
          />
          {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
          <div class="form-actions">
            <Button
              type="submit"
              kind="primary"
              needs={Scope.CONNECTIONS_WRITE}
              isBusy={acting.isBusy}
              isDisabled={integration === "" || mistake !== undefined}
            >
              Send test webhook
            </Button>
            <Button onClick={() => (body.value = indentedJson(body.value) ?? body.value)}>Indent the body</Button>
          </div>
        </form>
        <Section title="What would happen">
          {integration === "" && <p class="quiet">Choose an integration first.</p>}
          {explained.fault !== undefined && <FaultNotice fault={explained.fault} retry={explained.reload} />}
          {from.fault !== undefined && <FaultNotice fault={from.fault} retry={from.reload} />}
          {integration !== "" && explained.value !== undefined && (
            <Explanation answer={explained.value} integration={integration} isStored={queryValue("from") !== ""} />
          )}
        </Section>
      </div>
    </PageFrame>
  );
}

const namesWith = (names: readonly string[], one: string): readonly (readonly [string, string])[] =>
  (one === "" || names.includes(one) ? names : [one, ...names]).map((name) => [name, name]);

/** Fills the form with a stored webhook, once. */
function usePrefill(
  environment: string,
  id: string,
  fill: (form: { readonly headers: string; readonly body: string }) => void,
) {
  const loaded = useLoad(
    async (signal) =>
      id === "" ? undefined : (await webhooks.getNotification({ environment, id }, { signal })).notification,
    [environment, id],
  );
  const { value } = loaded;
  useEffect(() => {
    if (value !== undefined) fill({ headers: headerLines(value.headers), body: textOf(value.body) ?? "" });
  }, [value]);
  return loaded;
}

/** Returns a text once it has not changed for a moment. */
function useSettled(text: string): string {
  const settled = useSignal(text);
  useEffect(() => {
    const timer = setTimeout(() => {
      settled.value = text;
    }, settleMs);
    return () => clearTimeout(timer);
  }, [text]);
  return settled.value;
}

interface ExplanationProps {
  readonly answer: ExplainWebhookResponse;
  readonly integration: string;
  readonly isStored: boolean;
}

function Explanation({ answer, integration, isStored }: ExplanationProps) {
  const { problem, matches, matchedRule, field } = answer;
  return (
    <ol class="flow">
      <li class={`flow-step ${problem === undefined ? "good" : "bad"}`}>
        <div class="flow-head">
          <h3>Sender</h3>
          <Badge tone={problem === undefined ? "good" : "bad"}>{problem === undefined ? "Accepted" : "Refused"}</Badge>
        </div>
        {problem === undefined ? (
          <p>The webhook would be accepted.</p>
        ) : (
          <>
            <p>From the provider it would be refused: {problem.message}. A test is sent without this check.</p>
            {isStored && (
              <Notice>
                Latchkey keeps only some headers of a webhook. The signature may be missing here for that.
              </Notice>
            )}
          </>
        )}
      </li>
      <li class={`flow-step ${matches.length > 0 ? "good" : "warn"}`}>
        <div class="flow-head">
          <h3>Connection</h3>
          {matches.length === 0 && <Badge tone="warn">No match</Badge>}
        </div>
        {matches.length === 0 ? (
          <p>No rule finds a connection. It would be delivered once, without one.</p>
        ) : (
          <>
            <p>
              {matchedRule < 0 ? "Matched by its channel." : `Rule ${matchedRule} matches, by `}
              {matchedRule >= 0 && <code>{field}</code>}
            </p>
            <ul class="match-list">
              {matches.slice(0, shownMatches).map(({ id }) => (
                <li key={id}>
                  <a href={linkTo(`/connections${pathOf(integration, id)}`)}>{id}</a>
                </li>
              ))}
              {matches.length > shownMatches && <li class="quiet">and {matches.length - shownMatches} more</li>}
            </ul>
          </>
        )}
      </li>
    </ol>
  );
}
