import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { Button } from "../../components/button.tsx";
import { CopyField } from "../../components/copy.tsx";
import { Field } from "../../components/field.tsx";
import { PageFrame } from "../../components/page.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { type Draft, useDraft } from "../../data/draft.ts";
import { integrations } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import type { CallFault } from "../../state/fault.ts";
import { linkTo, navigate, pathOf } from "../../state/router.ts";
import { integrationOf, problemOfName, type SetupValues } from "./setup-values.ts";

/** The form of a new integration for an MCP server: its URL is enough. */
export function NewMcpPage() {
  const environment = environmentName.value;
  const draft = useDraft<SetupValues>(`mcp:${environment}`, {});
  return (
    <PageFrame
      title="Add an MCP server"
      above={[
        ["Integrations", linkTo("/integrations")],
        ["Catalog", linkTo("/catalog")],
      ]}
      lead="Agents call the server through Latchkey, with the accounts that your users have connected."
    >
      <div class="columns">
        <NewMcpForm key={environment} environment={environment} draft={draft} />
        <NextSteps />
      </div>
    </PageFrame>
  );
}

const NextSteps = () => (
  <aside class="card checklist" aria-label="What happens then">
    <h2>What happens then</h2>
    <ol>
      <li>
        <p>Latchkey reads the server's metadata, and registers itself as a client where it can.</p>
      </li>
      <li>
        <p>Your users connect an account, as with any integration.</p>
      </li>
      <li>
        <p>
          MCP clients use the address <code>/mcp/KEY</code> of Latchkey, with a key or an access session.
        </p>
      </li>
    </ol>
  </aside>
);

interface NewMcpFormProps {
  readonly environment: string;
  readonly draft: Draft<SetupValues>;
}

function NewMcpForm({ environment, draft }: NewMcpFormProps) {
  const values = draft.value.value;
  const set = (name: string) => (text: string) => (draft.value.value = { ...draft.value.value, [name]: text });
  const secret = useSignal("");
  const isTried = useSignal(false);
  const acting = useAct({ isQuiet: true });
  const form = useRef<HTMLFormElement>(null);
  const url = (values["url"] ?? "").trim();
  const key = (values["key"] ?? suggestedKey(url)).trim();
  const { fault } = acting;
  const urlProblem = problemOfUrl(url);
  const keyProblem = problemOfName(key);

  const focusProblem = () =>
    requestAnimationFrame(() => form.current?.querySelector<HTMLElement>("[aria-invalid=true], .asked input")?.focus());

  async function create() {
    isTried.value = true;
    if (urlProblem !== undefined || keyProblem !== undefined) {
      focusProblem();
      return;
    }
    const given = integrationOf({ ...values, "secrets.client_secret": secret.value });
    const integration = { ...given, environment, key, mcpUrl: url };
    const isDone = await acting.run(() => integrations.createIntegration({ integration }), `Created ${key}`);
    if (!isDone) {
      focusProblem();
      return;
    }
    draft.forget();
    navigate(linkTo(pathOf("integrations", key)));
  }

  return (
    <form
      ref={form}
      class="card form setup-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void create();
      }}
    >
      <ServerFields
        values={values}
        set={set}
        urlProblem={(isTried.value ? urlProblem : undefined) ?? urlFault(fault)}
        keyProblem={(isTried.value ? keyProblem : undefined) ?? fault?.fields["integration.key"]}
        onUrl={acting.forget}
      />
      <OwnClient
        values={values}
        set={set}
        secret={secret.value}
        setSecret={(text) => (secret.value = text)}
        fault={fault}
      />
      {fault !== undefined && fault.code !== "client_required" && <FaultNotice fault={fault} />}
      <div class="form-actions">
        <Button type="submit" kind="primary" isBusy={acting.isBusy} needs={Scope.INTEGRATIONS_WRITE}>
          {acting.isBusy ? "Reading the server" : "Add server"}
        </Button>
      </div>
    </form>
  );
}

interface ServerFieldsProps {
  readonly values: SetupValues;
  readonly set: (name: string) => (text: string) => void;
  readonly urlProblem: string | undefined;
  readonly keyProblem: string | undefined;
  /** Called when the URL changes: what was wrong with the former one says nothing. */
  readonly onUrl: () => void;
}

function ServerFields({ values, set, urlProblem, keyProblem, onUrl }: ServerFieldsProps) {
  const url = values["url"] ?? "";
  const key = values["key"] ?? suggestedKey(url.trim());
  return (
    <>
      <Field
        label="URL of the server"
        type="url"
        value={url}
        onInput={(text) => {
          set("url")(text);
          onUrl();
        }}
        problem={urlProblem}
        placeholder="https://mcp.example.com/mcp"
        help="The address in the server's documentation. It cannot be changed later."
        isCode
        isFocused
      />
      <Field
        label="Key"
        value={key}
        onInput={set("key")}
        problem={keyProblem}
        help={
          <>
            Clients use the address <code>/mcp/{key.trim() === "" ? "KEY" : key.trim()}</code>. It cannot be changed
            later.
          </>
        }
        isCode
      />
      <Field
        label="Name for people"
        value={values["display_name"] ?? ""}
        onInput={set("display_name")}
        help="Your users see it on the connect page. Empty: the server's name."
      />
    </>
  );
}

interface OwnClientProps {
  readonly values: SetupValues;
  readonly set: (name: string) => (text: string) => void;
  readonly secret: string;
  readonly setSecret: (text: string) => void;
  readonly fault: CallFault | undefined;
}

const ownClientFields = ["oauth.client_id", "oauth.scopes"] as const;

/** What most servers do not need. It opens by itself when a server registers no clients. */
function OwnClient({ values, set, secret, setSecret, fault }: OwnClientProps) {
  const clientId = values["oauth.client_id"] ?? "";
  const isAsked = fault?.code === "client_required";
  const redirectUri = fault?.values["redirect_uri"];
  return (
    <details
      class={`form-more${isAsked && clientId === "" ? " asked" : ""}`}
      open={isAsked || ownClientFields.some((name) => (values[name] ?? "") !== "")}
    >
      <summary>Your own client and scopes</summary>
      {isAsked && fault !== undefined && (
        <div>
          <FaultNotice fault={fault} />
          {redirectUri !== undefined && <CopyField text={redirectUri} label="redirect URI" />}
        </div>
      )}
      <Field
        label="Client ID"
        value={clientId}
        onInput={set("oauth.client_id")}
        problem={fault?.fields["integration.oauth.client_id"]}
        help="Only if you have registered a client at the server yourself. Empty: Latchkey registers one."
        isCode
      />
      {clientId !== "" && (
        <Field
          label="Client secret"
          type="password"
          value={secret}
          onInput={setSecret}
          help="Empty for a public client."
          isCode
        />
      )}
      <Field
        label="Scopes"
        value={values["oauth.scopes"] ?? ""}
        onInput={set("oauth.scopes")}
        problem={fault?.fields["integration.oauth.scopes"]}
        help="Separated by spaces. Empty: those that the server asks for."
        isCode
      />
    </details>
  );
}

/** The cause is in the notice; the field says where to look. */
const urlFault = (fault: CallFault | undefined): string | undefined =>
  fault?.fields["integration.mcp_url"] ??
  (fault?.code === "discovery_failed" ? "Latchkey found no MCP server that it can use here" : undefined);

function problemOfUrl(url: string): string | undefined {
  const example = "such as https://mcp.example.com/mcp";
  if (url === "") return `Enter the URL, ${example}`;
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol) ? undefined : `Enter a whole URL, ${example}`;
}

/** Returns `notion-mcp` for `https://mcp.notion.com/mcp`: the name before the last ending of the host. */
function suggestedKey(url: string): string {
  if (!URL.canParse(url)) return "";
  const labels = new URL(url).hostname.split(".").filter((label) => /^[a-z][a-z0-9-]*$/.test(label));
  const name = labels.filter((label) => !["mcp", "api", "www"].includes(label)).at(labels.length > 1 ? -2 : -1);
  return name === undefined ? "" : `${name}-mcp`;
}
