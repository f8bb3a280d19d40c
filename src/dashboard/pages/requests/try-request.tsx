import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { SendRequestResponse } from "../../../gen/latchkey/v1/traffic_pb.ts";
import { Button } from "../../components/button.tsx";
import { Code } from "../../components/code.tsx";
import { Field, Select } from "../../components/field.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { traffic } from "../../state/clients.ts";
import { setQuery } from "../../state/router.ts";
import { ExplainedRequest } from "./explained-request.tsx";
import { headersIn } from "./header-lines.ts";
import { type SnippetLanguage, snippetLanguages, snippetOf } from "./snippets.ts";
import type { TriedConnection } from "./tried-connection.ts";
import { TriedResponse } from "./tried-response.tsx";

interface TryRequestProps {
  readonly connection: TriedConnection;
  readonly method?: string;
  readonly path?: string;
  /** Keeps method and path in the address, as `method` and `path`. */
  readonly isInAddress?: boolean;
}

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
const mayHaveBody = (method: string) => !["GET", "HEAD", "OPTIONS"].includes(method);
const encoder = new TextEncoder();

/** A form that sends a request with the credentials of a connection, and shows the response. */
export function TryRequest({ connection, method: begun = "GET", path: start = "/", isInAddress }: TryRequestProps) {
  const method = useSignal(methods.includes(begun) ? begun : "GET");
  const path = useSignal(start);
  const headerText = useSignal("");
  const body = useSignal("");
  const answer = useSignal<SendRequestResponse | undefined>(undefined);
  const act = useAct({ isQuiet: true });
  const { headers, problem } = headersIn(headerText.value);
  const hasBody = mayHaveBody(method.value);
  const sentBody = hasBody ? body.value : "";
  const sentHeaders = withType(headers, sentBody);

  function keep(changes: { readonly method?: string; readonly path?: string }) {
    if (changes.method !== undefined) method.value = changes.method;
    if (changes.path !== undefined) path.value = changes.path;
    if (isInAddress) setQuery(changes);
  }

  async function send() {
    if (problem !== undefined) return;
    await act.run(async () => {
      answer.value = undefined;
      answer.value = await traffic.sendRequest({
        connection,
        method: method.value,
        path: rooted(path.value),
        headers: sentHeaders.map(([name, value]) => ({ name, value: encoder.encode(value) })),
        body: encoder.encode(sentBody),
      });
    });
  }

  return (
    <div class="try">
      <form
        class="try-form"
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <TryLine method={method.value} path={path.value} isBusy={act.isBusy} onChange={keep} />
        <Field
          label="Headers"
          value={headerText.value}
          rows={2}
          isCode
          placeholder="Accept: application/json"
          problem={problem}
          help="One a line. The credentials of the connection are added by Latchkey."
          onInput={(value) => (headerText.value = value)}
        />
        {hasBody && (
          <Field
            label="Body"
            value={body.value}
            rows={5}
            isCode
            placeholder='{"name": "value"}'
            onInput={(value) => (body.value = value)}
          />
        )}
        <ExplainedRequest
          connection={connection}
          method={method.value}
          path={rooted(path.value)}
          headerNames={sentHeaders.map(([name]) => name)}
        />
      </form>
      <div class="try-result" aria-live="polite">
        {act.fault !== undefined && <FaultNotice fault={act.fault} />}
        {answer.value !== undefined && <TriedResponse answer={answer.value} />}
      </div>
      <Snippets
        request={{
          integration: connection.integration,
          connection: connection.id,
          method: method.value,
          path: rooted(path.value),
          headers: sentHeaders,
          body: sentBody,
        }}
      />
    </div>
  );
}

interface TryLineProps {
  readonly method: string;
  readonly path: string;
  readonly isBusy: boolean;
  readonly onChange: (changes: { readonly method?: string; readonly path?: string }) => void;
}

const TryLine = ({ method, path, isBusy, onChange }: TryLineProps) => (
  <div class="try-line">
    <Select
      label="Method"
      value={method}
      options={methods.map((one) => [one, one] as const)}
      onInput={(value) => onChange({ method: value })}
    />
    <Field
      label="Path and query at the provider"
      value={path}
      isCode
      placeholder="/v1/users?limit=10"
      onInput={(value) => onChange({ path: value })}
    />
    <Button type="submit" kind="primary" needs={Scope.PROXY} isBusy={isBusy}>
      Send
    </Button>
  </div>
);

const rooted = (path: string): string => (path.startsWith("/") ? path : `/${path}`);

/** JSON is by far the most frequent body. */
function withType(headers: readonly (readonly [string, string])[], body: string) {
  const hasType = headers.some(([name]) => name.toLowerCase() === "content-type");
  const type = /^\s*[[{]/.test(body) ? "application/json" : "application/x-www-form-urlencoded";
  return body === "" || hasType ? headers : [...headers, ["Content-Type", type] as const];
}

function Snippets({ request }: { readonly request: Parameters<typeof snippetOf>[1] }) {
  const language = useSignal<SnippetLanguage>("curl");
  return (
    <details class="try-code">
      <summary>The same as code</summary>
      <fieldset class="tabs" aria-label="Language">
        {snippetLanguages.map(([one, name]) => (
          <button
            key={one}
            type="button"
            aria-pressed={one === language.value}
            onClick={() => {
              language.value = one;
            }}
          >
            {name}
          </button>
        ))}
      </fieldset>
      <Code text={snippetOf(language.value, request)} label="code" />
      <p class="quiet">Put a key of the environment in place of YOUR_KEY, and the address of your Latchkey.</p>
    </details>
  );
}
