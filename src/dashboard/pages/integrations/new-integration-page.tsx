import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { IntegrationSetup } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { Button } from "../../components/button.tsx";
import { Checkbox, Field } from "../../components/field.tsx";
import { PageFrame } from "../../components/page.tsx";
import { ProviderMark } from "../../components/provider-mark.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { useDraft } from "../../data/draft.ts";
import { authTitle, providerTitle } from "../../data/known-providers.ts";
import { useLoad } from "../../data/load.ts";
import { integrations, providers } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo, navigate, pathOf } from "../../state/router.ts";
import { SetupChecklist } from "./setup-checklist.tsx";
import { lowerFirst, SetupField } from "./setup-field.tsx";
import { integrationOf, problemOf, problemOfName, type SetupValues, scopesIn } from "./setup-values.ts";

const settleMs = 250;

/** The form of a new integration, made from the provider's description. */
export function NewIntegrationPage({ values: { provider: name = "" } }: PageProps) {
  const environment = environmentName.value;
  const draft = useDraft<SetupValues>(`integration:${environment}:${name}`, { key: name });
  const key = draft.value.value["key"] ?? "";
  const asked = useSettled(key);
  const loaded = useLoad(async (signal) => (await providers.getProvider({ name }, { signal })).provider, [name]);
  const setupOf = useLoad(
    async (signal) =>
      (await integrations.getIntegrationSetup({ environment, provider: name, key: asked }, { signal })).setup,
    [environment, name, asked],
  );
  const provider = loaded.value;
  const setup = setupOf.value;
  const title = provider === undefined ? name : providerTitle(provider);
  const fault = loaded.fault ?? (setup === undefined ? setupOf.fault : undefined);
  return (
    <PageFrame
      title={
        <span class="marked">
          <ProviderMark name={name} title={title} categories={provider?.categories ?? []} isLarge />
          <span>Add {title}</span>
        </span>
      }
      above={[
        ["Integrations", linkTo("/integrations")],
        ["Catalog", linkTo("/catalog")],
      ]}
      lead={provider !== undefined && <ProviderLead provider={provider} />}
    >
      {fault !== undefined && <FaultNotice fault={fault} retry={loaded.reload} />}
      {fault === undefined && (provider === undefined || setup === undefined) && <Skeleton />}
      {provider !== undefined && setup !== undefined && (
        <div class="columns setup-columns">
          <NewIntegrationForm
            environment={environment}
            provider={provider}
            setup={setup}
            values={draft.value.value}
            onChange={(changes) => (draft.value.value = { ...draft.value.value, ...changes })}
            onDone={() => draft.forget()}
          />
          <SetupChecklist setup={setup} provider={provider} scopes={requestedScopes(setup, draft.value.value)} />
        </div>
      )}
    </PageFrame>
  );
}

/** The scopes that end users will be asked for. */
function requestedScopes({ fields }: IntegrationSetup, values: SetupValues): readonly string[] {
  const chosen = scopesIn(values);
  return chosen.length > 0 ? chosen : (fields.find(({ path }) => path === "oauth.scopes")?.defaultValues ?? []);
}

const ProviderLead = ({ provider }: { readonly provider: Provider }) => (
  <>
    {authTitle(provider)} · <a href={linkTo(pathOf("providers", provider.name))}>Show the description</a>
  </>
);

/** Returns the text once it has stopped changing. */
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

interface NewIntegrationFormProps {
  readonly environment: string;
  readonly provider: Provider;
  readonly setup: IntegrationSetup;
  readonly values: SetupValues;
  readonly onChange: (changes: SetupValues) => void;
  readonly onDone: () => void;
}

function NewIntegrationForm(props: NewIntegrationFormProps) {
  const { environment, provider, setup, values, onChange, onDone } = props;
  const secrets = useSignal<SetupValues>({});
  const isQuick = useSignal(false);
  const isTried = useSignal(false);
  const acting = useAct({ isQuiet: true });
  const form = useRef<HTMLFormElement>(null);
  const all = { ...values, ...secrets.value };
  const fields = setup.fields.filter(({ path }) => !isQuick.value || !isOfClient(path));
  const missing = fields.filter(({ path, required }) => required && (all[path] ?? "").trim() === "");
  const wrong = fields.filter((field) => problemOf(field, all[field.path] ?? "") !== undefined);
  const keyProblem = problemOfKey(all["key"] ?? "", setup);

  async function create(isPartial: boolean) {
    isTried.value = !isPartial;
    if (keyProblem !== undefined || wrong.length > 0 || (missing.length > 0 && !isPartial)) {
      requestAnimationFrame(() => form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
      return;
    }
    const key = (all["key"] ?? "").trim();
    const integration = { ...integrationOf(all), environment, key, provider: provider.name };
    const isDone = await acting.run(
      () => integrations.createIntegration({ integration, quickstart: isQuick.value }),
      `Created ${key}`,
    );
    if (!isDone) return;
    onDone();
    navigate(linkTo(pathOf("integrations", key)));
  }

  const { fault } = acting;
  return (
    <form
      ref={form}
      class="card form setup-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void create(false);
      }}
    >
      <Field
        label="Key"
        value={all["key"] ?? ""}
        onInput={(key) => onChange({ key })}
        problem={keyProblem ?? fault?.fields["integration.key"]}
        help="Your application names the integration by it. It cannot be changed later."
        isCode
      />
      <Field
        label="Name for people"
        value={all["display_name"] ?? ""}
        onInput={(text) => onChange({ display_name: text })}
        placeholder={providerTitle(provider)}
        help="Your users see it on the connect page. Empty: the provider's name."
      />
      {setup.hasQuickstart && (
        <Notice>
          <Checkbox
            isChecked={isQuick.value}
            onChange={(isChecked) => (isQuick.value = isChecked)}
            label="Use the provider's test credentials. They are public: good for a first try, not for production."
          />
        </Notice>
      )}
      {fields.map((field) => (
        <SetupField
          key={field.path}
          field={field}
          value={all[field.path] ?? ""}
          onInput={(value) => {
            if (field.path.startsWith("secrets.")) secrets.value = { ...secrets.value, [field.path]: value };
            else onChange({ [field.path]: value });
          }}
          problem={
            isTried.value && missing.includes(field)
              ? `Enter the ${lowerFirst(field.title)}`
              : fault?.fields[`integration.${field.path}`]
          }
        />
      ))}
      {fault !== undefined && <FaultNotice fault={fault} />}
      <div class="form-actions">
        <Button type="submit" kind="primary" isBusy={acting.isBusy} needs={Scope.INTEGRATIONS_WRITE}>
          Create integration
        </Button>
        {isTried.value && missing.length > 0 && (
          <Button onClick={() => void create(true)} needs={Scope.INTEGRATIONS_WRITE}>
            Create it without the app
          </Button>
        )}
      </div>
    </form>
  );
}

const isOfClient = (path: string): boolean => path === "oauth.client_id" || path === "secrets.client_secret";

function problemOfKey(key: string, { key: asked, exists }: IntegrationSetup): string | undefined {
  const wrong = problemOfName(key.trim());
  if (wrong !== undefined) return wrong;
  return exists && asked === key.trim() ? "There is an integration with this key. Choose another" : undefined;
}
