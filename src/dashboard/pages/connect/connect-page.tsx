import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { CreateConnectSessionResponse } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import { Button } from "../../components/button.tsx";
import { Checkbox, Field } from "../../components/field.tsx";
import { PageFrame, Section } from "../../components/page.tsx";
import { Empty, FaultNotice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { useDraft } from "../../data/draft.ts";
import { useIntegrationNames } from "../../data/integration-names.ts";
import { connectSessions } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, queryValue } from "../../state/router.ts";
import { tagOf } from "../connections/connection-filters.tsx";
import { NewLink } from "./new-link.tsx";
import { OpenLinks } from "./open-links.tsx";

/** Invites an end user to connect an account, and lists who was invited. */
export function ConnectPage() {
  const made = useSignal<CreateConnectSessionResponse | undefined>(undefined);
  const round = useSignal(0);
  return (
    <PageFrame
      title="Connect"
      lead="Make a link by which an end user connects an account, or connect one yourself."
      actions={
        <a class="button plain" href={linkTo("/branding")}>
          Branding of the page
        </a>
      }
    >
      <div class="connect-columns">
        <Section title="New link">
          <NewLinkForm
            onMade={(created) => {
              made.value = created;
              round.value += 1;
            }}
          />
        </Section>
        <Section title="Your link">
          {made.value === undefined ? (
            <p class="quiet">The link appears here. It opens a page where the end user chooses and authorizes.</p>
          ) : (
            <NewLink key={made.value.session?.id} created={made.value} />
          )}
        </Section>
      </div>
      <OpenLinks round={round.value} />
    </PageFrame>
  );
}

interface LinkDraft {
  readonly allowed: readonly string[];
  readonly id: string;
  readonly email: string;
  readonly displayName: string;
  readonly tags: string;
}

const emptyDraft: LinkDraft = { allowed: [], id: "", email: "", displayName: "", tags: "" };

function NewLinkForm({ onMade }: { readonly onMade: (created: CreateConnectSessionResponse) => void }) {
  const integrations = useIntegrationNames();
  const wished = queryValue("integration");
  const { value: draft } = useDraft<LinkDraft>(`link ${environmentName.value} ${wished}`, {
    ...emptyDraft,
    allowed: wished === "" ? [] : [wished],
  });
  const act = useAct({ isQuiet: true });
  const tagLines = draft.value.tags.split("\n").filter((line) => line.trim() !== "");
  const wrong = tagLines.find((line) => tagOf(line.trim()).length === 0);
  const isReady = wrong === undefined && (draft.value.id.trim() !== "" || tagLines.length > 0);

  async function make() {
    const { id, email, displayName } = draft.value;
    const endUser = { id: id.trim(), email: email.trim(), displayName: displayName.trim() };
    const created = await connectSessions.createConnectSession({
      environment: environmentName.value,
      allowedIntegrations: [...draft.value.allowed],
      tags: Object.fromEntries(tagLines.flatMap((line) => tagOf(line.trim()))),
      ...(endUser.id !== "" && { endUser }),
    });
    onMade(created);
    draft.value = { ...emptyDraft, allowed: draft.value.allowed };
  }
  if (integrations.length === 0) {
    return (
      <Empty title="No integrations yet">
        <p>End users connect accounts of an integration.</p>
        <a href={linkTo("/integrations")}>Add an integration</a>
      </Empty>
    );
  }
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady) void act.run(make, "Made a link");
      }}
    >
      <IntegrationChoice
        integrations={integrations}
        allowed={draft.value.allowed}
        onChange={(allowed) => (draft.value = { ...draft.value, allowed })}
      />
      <Field
        label="End user ID"
        value={draft.value.id}
        onInput={(id) => (draft.value = { ...draft.value, id })}
        help="As in your application. This, or a tag, is required."
        problem={act.fault?.fields["end_user.id"]}
      />
      <Field
        label="Email"
        type="email"
        value={draft.value.email}
        onInput={(email) => (draft.value = { ...draft.value, email })}
        problem={act.fault?.fields["end_user.email"]}
      />
      <Field
        label="Name"
        value={draft.value.displayName}
        onInput={(displayName) => (draft.value = { ...draft.value, displayName })}
      />
      <Field
        label="Tags"
        value={draft.value.tags}
        onInput={(tags) => (draft.value = { ...draft.value, tags })}
        rows={2}
        isCode
        placeholder="team=sales"
        help="One tag a line, as key=value. The new connection gets them."
        problem={wrong === undefined ? act.fault?.fields["tags"] : `"${wrong}" is not key=value.`}
      />
      {act.fault !== undefined && <FaultNotice fault={act.fault} />}
      <div class="form-actions">
        <Button
          type="submit"
          kind="primary"
          needs={Scope.CONNECTIONS_WRITE}
          isBusy={act.isBusy}
          isDisabled={!isReady}
          title={isReady ? "" : "Enter the ID of the end user, or a tag"}
        >
          Make a link
        </Button>
      </div>
    </form>
  );
}

interface IntegrationChoiceProps {
  readonly integrations: readonly string[];
  /** Empty: all. */
  readonly allowed: readonly string[];
  readonly onChange: (allowed: readonly string[]) => void;
}

const IntegrationChoice = ({ integrations, allowed, onChange }: IntegrationChoiceProps) => (
  <fieldset class="integration-choice">
    <legend>Integrations</legend>
    <div class="integration-choices">
      {integrations.map((key) => (
        <Checkbox
          key={key}
          label={key}
          isChecked={allowed.includes(key)}
          onChange={(isOn) => onChange(isOn ? [...allowed, key] : allowed.filter((one) => one !== key))}
        />
      ))}
    </div>
    <p class="field-help">
      {allowed.length === 0 ? "The end user chooses among all." : "The end user chooses among these."}
    </p>
  </fieldset>
);
