import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { Button } from "../../components/button.tsx";
import { Field } from "../../components/field.tsx";
import { PageFrame } from "../../components/page.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { useDraft } from "../../data/draft.ts";
import { integrations } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, navigate, pathOf } from "../../state/router.ts";
import { integrationOf, type SetupValues } from "./setup-values.ts";

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
      lead="Latchkey reads the server's metadata and registers itself as a client."
    >
      <NewMcpForm
        environment={environment}
        values={draft.value.value}
        onChange={(changes) => (draft.value.value = { ...draft.value.value, ...changes })}
        onDone={() => draft.forget()}
      />
    </PageFrame>
  );
}

interface NewMcpFormProps {
  readonly environment: string;
  readonly values: SetupValues;
  readonly onChange: (changes: SetupValues) => void;
  readonly onDone: () => void;
}

function NewMcpForm({ environment, values, onChange, onDone }: NewMcpFormProps) {
  const secret = useSignal("");
  const isTried = useSignal(false);
  const acting = useAct({ isQuiet: true });
  const form = useRef<HTMLFormElement>(null);
  const url = (values["url"] ?? "").trim();
  const key = (values["key"] ?? suggestedKey(url)).trim();
  const { fault } = acting;
  const urlProblem = URL.canParse(url) ? undefined : "Enter the URL, such as https://mcp.example.com/mcp";
  const keyProblem = key === "" ? "Enter a key" : undefined;

  async function create() {
    isTried.value = true;
    if (urlProblem !== undefined || keyProblem !== undefined) {
      requestAnimationFrame(() => form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
      return;
    }
    const given = integrationOf({ ...values, "secrets.client_secret": secret.value });
    const integration = { ...given, environment, key, mcpUrl: url };
    const isDone = await acting.run(() => integrations.createIntegration({ integration }), `Created ${key}`);
    if (!isDone) return;
    onDone();
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
      <Field
        label="URL of the server"
        type="url"
        value={values["url"] ?? ""}
        onInput={(text) => onChange({ url: text })}
        problem={(isTried.value ? urlProblem : undefined) ?? fault?.fields["integration.mcp_url"]}
        placeholder="https://mcp.example.com/mcp"
        help="The address that clients would be given. It cannot be changed later."
        isCode
        isFocused
      />
      <Field
        label="Key"
        value={values["key"] ?? suggestedKey(url)}
        onInput={(text) => onChange({ key: text })}
        problem={(isTried.value ? keyProblem : undefined) ?? fault?.fields["integration.key"]}
        help={`Clients use the address /mcp/${key === "" ? "KEY" : key}. It cannot be changed later.`}
        isCode
      />
      <Field
        label="Name for people"
        value={values["display_name"] ?? ""}
        onInput={(text) => onChange({ display_name: text })}
        help="Your users see it on the connect page. Empty: the server's name."
      />
      <Field
        label="Scopes"
        value={values["oauth.scopes"] ?? ""}
        onInput={(text) => onChange({ "oauth.scopes": text })}
        help="Separated by spaces. Empty: those that the server asks for."
        isCode
      />
      <Field
        label="Client ID"
        value={values["oauth.client_id"] ?? ""}
        onInput={(text) => onChange({ "oauth.client_id": text })}
        help="Only for a server at which you have registered a client yourself. Empty: Latchkey registers one."
        isCode
      />
      {(values["oauth.client_id"] ?? "") !== "" && (
        <Field
          label="Client secret"
          type="password"
          value={secret.value}
          onInput={(text) => (secret.value = text)}
          help="Empty for a public client."
          isCode
        />
      )}
      {fault !== undefined && <FaultNotice fault={fault} />}
      <div class="form-actions">
        <Button type="submit" kind="primary" isBusy={acting.isBusy} needs={Scope.INTEGRATIONS_WRITE}>
          Add server
        </Button>
      </div>
    </form>
  );
}

/** Returns `notion-mcp` for `https://mcp.notion.com/mcp`: the name before the last ending of the host. */
function suggestedKey(url: string): string {
  if (!URL.canParse(url)) return "";
  const labels = new URL(url).hostname.split(".").filter((label) => /^[a-z][a-z0-9-]*$/.test(label));
  const name = labels.filter((label) => !["mcp", "api", "www"].includes(label)).at(labels.length > 1 ? -2 : -1);
  return name === undefined ? "" : `${name}-mcp`;
}
